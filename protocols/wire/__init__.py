"""The wire between our own processes: frames, the two ends of a connection, operations and their values."""
