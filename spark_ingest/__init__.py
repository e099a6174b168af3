"""Spark reads topics as tables, and writes tables to topics.  Nothing here is loaded by the server."""
