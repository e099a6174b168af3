"""gRPC over HTTP/2: the head of a call, messages with their prefix, and the status at the end.  Pure."""
