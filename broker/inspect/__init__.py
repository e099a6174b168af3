"""The inspection of a data directory from outside, without a server and without a change to it."""
