"""A gRPC server on a listener of ours (ADR 86): calls, deadlines and the drain.  It knows nothing of RocketMQ."""
