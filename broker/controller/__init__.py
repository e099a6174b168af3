"""The controller: who of a broker group's replicas is master, agreed on by Raft and decided without an operator."""
