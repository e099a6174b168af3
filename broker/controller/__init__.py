"""The controller: a group of servers that agree, by Raft, on the masters of broker groups."""
