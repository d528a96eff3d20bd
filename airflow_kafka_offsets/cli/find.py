"""``kafka-offsets ledger find``: finds the window, the attempt and the output of a record, by its offset."""
