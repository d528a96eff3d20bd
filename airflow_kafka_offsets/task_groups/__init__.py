"""Task groups: several of our tasks as one."""
