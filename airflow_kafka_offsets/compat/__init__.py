"""What older versions of our neighbours lack: one module for each, and each entry with the version that has it."""
