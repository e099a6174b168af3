"""RocketMQ 5's published gRPC protocol: our statement of its wire (`v2.proto`), its stubs, and the mapping to ours."""
