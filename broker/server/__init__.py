"""A broker as a process of its own: what it answers over the wire, and how it makes itself known."""
