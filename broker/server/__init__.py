"""A broker as a process of its own: its remote operations, and its registration."""
