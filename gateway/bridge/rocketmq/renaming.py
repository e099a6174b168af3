"""Topic names on both sides of a bridge to a RocketMQ cluster, by its rules."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain.names import is_hidden_topic, is_topic_name, qualified, split_name
from entrepot.gateway.settings.rocketmq_bridge import ANY, RocketMqRule


def local_name(rule: RocketMqRule, remote: str) -> str | None:
    """Return the name here of a topic of the cluster, or None if the rule does not carry it."""
    return _renamed(rule.topics, remote, rule.remote_prefix, rule.local_prefix)


def remote_name(rule: RocketMqRule, local: str) -> str | None:
    """Return the name at the cluster of a topic here, or None if the rule does not carry it."""
    return _renamed(rule.topics, local, rule.local_prefix, rule.remote_prefix)


def _renamed(patterns: Sequence[str], name: str, prefix: str, other: str) -> str | None:
    namespace, plain = split_name(name)
    if is_hidden_topic(name) or not plain.startswith(prefix):
        return None
    bare = plain[len(prefix) :]
    if not any(_matches(pattern, namespace, bare) for pattern in patterns):
        return None
    renamed = other + bare
    return qualified(namespace, renamed) if is_topic_name(renamed) else None


def _matches(pattern: str, namespace: str, bare: str) -> bool:
    within, wanted = split_name(pattern)
    if within != namespace:
        return False
    return bare.startswith(wanted[:-1]) if wanted.endswith(ANY) else bare == wanted


def renamed_sub_topic(sub_topic: str, before: str, now: str) -> str:
    """Return a sub-topic whose first level is the topic `before`, with the topic `now` there (stored names)."""
    old, new = split_name(before)[1], split_name(now)[1]
    if sub_topic == old or sub_topic.startswith(f"{old}/"):
        return new + sub_topic[len(old) :]
    return sub_topic or new
