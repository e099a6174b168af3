"""Gateways: their parts over a store, one in a thread, operations without HTTP, overviews, bridges."""
