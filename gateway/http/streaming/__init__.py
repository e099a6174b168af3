"""Streams of events over HTTP: server-sent events for who only reads, a WebSocket for consumers of a group."""
