"""Topic names and filters that mean something to the server."""
