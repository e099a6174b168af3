"""MQTT: a raw client, the door without sockets, load, machines, sessions and shares, brokers and clients of others."""
