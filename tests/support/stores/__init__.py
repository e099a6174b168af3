"""Stores: a model, one on a simulated disk, ports that are stepped, words for what tests ask, messages of all kinds."""
