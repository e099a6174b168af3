"""Retained messages: kept in the store's key-values, and found by the filter of a subscriber."""
