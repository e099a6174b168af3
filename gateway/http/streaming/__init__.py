"""Event streams over HTTP: a WebSocket for consumers of a group."""
