"""Peers: the gateway processes of one cluster, and questions that each of them answers for itself."""
