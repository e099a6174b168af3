"""The journey of a message: found by one of its names, gathered from all brokers, cut to the caller's rights."""
