"""The gateway process: listeners, frontends, HTTP, the verbs, and the command line."""
