"""RocketMQ's remoting protocol, as its brokers and name servers speak it: bytes to values and back, without sockets."""
