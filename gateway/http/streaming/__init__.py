"""Event streams over HTTP: server-sent events for readers, a WebSocket for consumers of a group."""
