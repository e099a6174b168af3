"""Looking into a data directory from outside, without a server and without changing a byte of it."""
