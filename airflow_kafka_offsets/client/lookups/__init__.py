"""Several requests that make one answer."""
