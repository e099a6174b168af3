"""A gateway as one member of its cluster: its identity, its lease, and what it knows of the others (`member.py`)."""
