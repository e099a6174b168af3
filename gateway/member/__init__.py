"""A gateway as one member of its cluster."""
