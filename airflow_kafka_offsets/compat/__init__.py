"""What older versions of our dependencies lack: one module each, and every entry names the version that has it."""
