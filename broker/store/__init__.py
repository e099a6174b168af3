"""The storage engine: synchronous, single-threaded, with one commit log from which all else is derived."""
