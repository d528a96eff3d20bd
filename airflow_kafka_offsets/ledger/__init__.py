"""The ledger: one pipeline's snapshots and windows, as files that are created and never changed."""
