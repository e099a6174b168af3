"""Rules of topics for their events (schemas, deduplication), and subscriptions to them with their delivery."""
