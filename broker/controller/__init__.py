"""The controller: elects the master among a broker group's replicas, by agreement (Raft) and without an operator."""
