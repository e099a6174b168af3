"""Identity and rights: one decision point for every listener."""
