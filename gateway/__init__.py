"""The gateway process: the protocol listeners, their shared parts, and the command line."""
