"""Access rights: RocketMQ's model (ACL 2.0) with MQTT topic filters as patterns.  Pure."""
