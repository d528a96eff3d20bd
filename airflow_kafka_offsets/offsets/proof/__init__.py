"""The proof: what was read and written, against the manifest; and which attempt counts."""
