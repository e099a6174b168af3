"""Tests of the contract of every store that the protocol carries, and why it does not carry the others."""

from __future__ import annotations

PLACES = "the protocol does not say where a record lies in the log, or which hash it has"
UNORDERED = "messages without a message group, or of two groups, have no order among them"
AHEAD = "a tail is a long poll: it begins when the cluster has said where, and brings what came since"
RECEIVES_32 = "a cluster gives 32 messages at once at most"
FINDS_NOTHING = "the protocol finds and lists nothing"
MULTI_DISPATCH = "the protocol has no further queues"
TOPOLOGY = "topics, groups and namespaces are made and deleted with RocketMQ's tools"
RELEASE = "to give back is to make invisible for a while, and counts as in flight until then"
REASONS = "of a dead letter the protocol says only its topic and message id"
RETRIES = "a cluster's retry topics, its limits and its compaction are its own affair"
NOT_IN_FLIGHT = "the protocol does not say how many messages are in flight"
ONE_KIND = "a message is one of half, timed and of a message group, not two of them"
NAMES_TAKEN = "a transaction id counts as taken by an earlier message of its batch, even if the cluster refuses that"
TWICE = "a settlement that is sent again is answered alike: its answer may have been lost"
CHECKS = "the cluster asks after transactions by itself, see test_transactions.py"
