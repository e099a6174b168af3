"""Controllers: the Raft machine, its files, and both simulated."""
