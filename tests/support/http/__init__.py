"""HTTP: clients, the door on a loopback port, load, streams of events, webhooks, WebSockets, browsers."""
