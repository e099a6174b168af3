"""The MQTT door."""
