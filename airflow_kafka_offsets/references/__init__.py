"""What one task hands to the next."""
