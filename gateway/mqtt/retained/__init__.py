"""Retained messages: kept in the store's key-values, found by the filter of a subscriber."""
