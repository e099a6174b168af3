"""Files and bytes of the store: segments, records, queues, recovery; synchronous throughout."""
