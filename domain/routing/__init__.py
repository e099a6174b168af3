"""Routing of messages: the queue of a topic, and matching topic filters."""
