"""Entrepôt: the one import package. Its rooms are the folders beside it, which links in here lead to."""
