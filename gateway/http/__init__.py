"""The HTTP door: CloudEvents in and out, administration, health and metrics."""
