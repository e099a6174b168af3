"""Shared subscriptions: consumer groups with members among the clients."""
