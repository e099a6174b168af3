"""The removal of data that is no longer needed."""
