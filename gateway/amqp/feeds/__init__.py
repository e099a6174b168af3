"""Feeds: a queue's consumers here, with the pop that feeds them; readers of streams."""
