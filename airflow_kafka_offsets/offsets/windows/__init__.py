"""A window's life: snapshots, the ranges between them, and the manifest."""
