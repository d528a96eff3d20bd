"""One window: read, counted, written and proved."""
