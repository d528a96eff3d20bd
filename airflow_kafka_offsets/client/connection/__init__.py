"""How bytes reach a broker, within a deadline."""
