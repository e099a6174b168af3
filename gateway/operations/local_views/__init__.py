"""Local views: what this gateway alone knows, its part of the answers over all gateways (`gateway.peers`).

ADR 55: questions to all gateways. Invariant: a view tells of this gateway alone, and asks no other gateway.
"""
