"""The storage engine: synchronous, single-threaded, one commit log from which everything else is derived."""
