"""MQTT: connections, sessions, retained messages, fan-out, shared subscriptions, the listeners."""
