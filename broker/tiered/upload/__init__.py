"""Uploads to tables of an object store, in a process of their own."""
