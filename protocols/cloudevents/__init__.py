"""CloudEvents 1.0.2: the event, its JSON format, its HTTP binding, and its mapping to messages."""
