"""Bridges to Apache RocketMQ clusters: topics carried in and out while clients move.

The other end is a store (`store_client/rocketmq`): in, its queues are read by offset; out, a consumer group here is
appended there.

Invariants: a position moves only after the store has confirmed the messages before it.  An outgoing message is
acknowledged in the store only after the cluster has confirmed it.  A message is never carried back to where it came
from.
"""
