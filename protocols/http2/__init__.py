"""HTTP/2 (RFC 9113), the server's side of one connection, without sockets."""
