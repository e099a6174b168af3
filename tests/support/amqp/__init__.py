"""AMQP: the door without sockets, load, machines, publishers, servers to play scripts on, clients of others."""
