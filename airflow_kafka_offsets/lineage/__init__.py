"""A window in links, asset events and OpenLineage."""
