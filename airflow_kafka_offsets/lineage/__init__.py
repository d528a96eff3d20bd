"""What others are told of a window: links, asset events, OpenLineage."""
