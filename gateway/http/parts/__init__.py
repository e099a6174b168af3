"""What HTTP shows and serves beside its own: the doors of the gateway, and the parts of events."""
