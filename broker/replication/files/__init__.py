"""Files of a replica beside the log."""
