"""The job: a topic, continuously or up to now, into tables, each message once.

Reading order: `settings` (what is asked for), `run` (the query), `batch` (what happens to one batch), then the tables
that are made of it: `minutes`, `devices`, `gaps`.
"""
