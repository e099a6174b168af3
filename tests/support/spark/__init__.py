"""Spark: topics to read, queries of one's own, jobs that are killed, a fleet, bodies of every kind."""
