"""Tables that something else has written, compared with a window: the table, the comparison, the verdict."""
