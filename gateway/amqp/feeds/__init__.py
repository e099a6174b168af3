"""Feeds: the consumers of a queue here, and the pop that feeds them; readers of streams."""
