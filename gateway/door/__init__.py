"""What a protocol needs to be one of the gateway's doors, and what the gateway shares with it."""
