"""Who may do what: RocketMQ 2.0's model of rights, with MQTT's topic filters as patterns.  Pure."""
