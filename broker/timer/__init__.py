"""Messages scheduled for a later time."""
