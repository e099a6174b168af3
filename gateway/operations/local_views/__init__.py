"""Local views: what this gateway alone knows, its part of the answers over all gateways (`gateway.peers`)."""
