"""Tests of the contract of every store that a RocketMQ cluster carries, and why it does not carry the others."""

from __future__ import annotations

PLACES = "RocketMQ keeps no hash of a sub-topic, and reads by its own limits"
LIMITS = "topics and groups of RocketMQ do not have these limits"
LATE_SETTLING = "brokers answer OK to an acknowledgement of what is settled, or of a delivery that is over"
COMES_BACK = "a queue that comes back has its old messages"
ATTEMPTS = "each delivery of RocketMQ counts as an attempt"
STARTS = "a group that begins at the end begins at a time, in milliseconds"
RECALLS = "a broker does not say whether what is recalled was waiting"
RECEIVES_32 = "a cluster gives 32 messages at once at most"
FINDS_NOTHING = "RocketMQ lists nothing that waits, and does not change its time"
MULTI_DISPATCH = "a half message has one queue"
TOPOLOGY = "RocketMQ makes and deletes topics and groups by rules of its own"
RELEASE = "to give back is to make invisible for a while, and counts as in flight until then"
REASONS = "a dead letter does not tell its place before, and is made at the next pop"
RETRIES = "a cluster's retry topics, its limits and its compaction are its own affair"
NOT_IN_FLIGHT = "messages in flight are counted roughly"
ONE_KIND = "a message is one of half, timed and of a message group, not two of them"
NAMES_TAKEN = "a transaction id counts as taken by an earlier message of its batch, even if the cluster refuses that"
CHECKS = "the cluster asks after transactions by itself, see test_transactions.py"
BY_OTHER_TESTS = frozenset({CHECKS})
"""Reasons of tests in whose place there are others."""
