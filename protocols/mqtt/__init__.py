"""MQTT 3.1, 3.1.1 and 5.0.  The codec works on bytes in memory and serves both ends of a connection."""
