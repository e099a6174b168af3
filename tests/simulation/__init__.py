"""Several machines in one process, whole from a seed: clocks, a network, disks, processes that die, faults, histories.

Worlds are made of it: `tests/raft`, `tests/replication`, `tests/controller`.  They have what is theirs: members,
clients, invariants, mixes of faults.
"""
