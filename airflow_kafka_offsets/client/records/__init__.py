"""What the bytes of a log hold: batches, and the records in them."""
