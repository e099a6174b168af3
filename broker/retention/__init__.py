"""What is no longer needed goes."""
