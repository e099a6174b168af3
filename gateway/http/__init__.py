"""The HTTP listener: CloudEvents in and out, administration, health and metrics."""
