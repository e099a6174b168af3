"""The layers between a listening socket and a conversation: admission, PROXY headers, TLS, WebSocket."""
