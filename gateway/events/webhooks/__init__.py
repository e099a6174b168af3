"""Webhooks: what is in a topic is dispatched to the feeds of its subscriptions, and delivered from there to sinks.

Both are pop consumers in every gateway: the work spreads by message, and what a gateway that dies had not finished
goes to another one.
"""
