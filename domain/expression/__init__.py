"""Filter expressions of consumers: RocketMQ's tags and SQL92, and MQTT topic filters over sub-topics."""
