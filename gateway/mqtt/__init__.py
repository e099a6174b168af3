"""The MQTT door: connections, sessions, retained messages, fan-out, shared subscriptions, the listener."""
