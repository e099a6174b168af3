"""The gateway process: a room for each door, what all of them use, HTTP, and the command line."""
