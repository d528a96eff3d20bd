"""The ledger: one pipeline's snapshots and windows, as files."""
