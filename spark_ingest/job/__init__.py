"""The job: a topic, continuously or up to now, into tables, each message once.

Reading order: `settings`, `run` (the query), `batch` (one batch), then the derived tables: `minutes`, `devices`,
`gaps`.
"""
