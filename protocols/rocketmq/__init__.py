"""RocketMQ 5's published gRPC protocol: our statement of its wire (`v2.proto`), the stubs made from it, what of ours is
what of theirs, and the table of errors."""
