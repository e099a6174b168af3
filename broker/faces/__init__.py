"""The ports of the domain on one broker, a file per port.  `broker.Broker` is all of them together."""
