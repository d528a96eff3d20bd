"""Reading a log's bytes: record batches and the records in them."""
