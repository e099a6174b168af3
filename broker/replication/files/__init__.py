"""What a replica keeps on its disk beside the log."""
