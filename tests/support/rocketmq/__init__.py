"""RocketMQ: stubs, load, a small cluster, rights, telemetry, clients of others."""
