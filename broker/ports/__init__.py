"""The ports of the domain on one broker, a file each, over what they share (`core.py`)."""
