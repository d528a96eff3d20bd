"""What depends on the versions of our dependencies, each of which has a module. Most entries are what older versions
lack, and name the version that has it."""
