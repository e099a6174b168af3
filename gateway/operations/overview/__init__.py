"""The overview of a cluster: rates by door, latency, lag, alarms, and the history of the last hour."""
