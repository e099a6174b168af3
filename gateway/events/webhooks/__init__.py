"""Webhooks: a topic's messages are dispatched to the feeds of its subscriptions, and delivered from there to sinks.

Both are pop consumers in every gateway: work spreads by message, and other gateways finish the work of one that dies.
"""
