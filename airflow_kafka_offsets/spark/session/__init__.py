"""What a driver works with: the session, its confs, the files that it reaches."""
