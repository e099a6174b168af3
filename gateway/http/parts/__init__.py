"""Parts of the HTTP door: the doors that it shows, and those of events."""
