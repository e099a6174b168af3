"""Processes: servers and deployments of ours, how they start, their ports and certificates, stand-ins for others."""
