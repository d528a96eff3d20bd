"""What a driver has at hand: the session, its confs, the files that it reaches."""
