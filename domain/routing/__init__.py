"""Where a message goes: the queue of its topic, and the topic filters it matches."""
