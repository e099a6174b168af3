"""The listener for RocketMQ 5's clients: the published gRPC service over the one store."""
