"""Names on both sides of a bridge, by its rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from domain.routing.topic_filter import is_valid_name, matches
from gateway.settings import BridgeRule

OWN: Final = "$"
"""Names that begin so are a server's own: a remote cannot say anything under ours."""


def local_name(rules: Sequence[BridgeRule], remote_name: str) -> str | None:
    """What a name of the remote is here, by the first rule in that wants it; None if none does."""
    for rule in rules:
        if matches(rule.remote_filter, remote_name):
            name = _exchanged(remote_name, rule.remote_prefix, rule.local_prefix)
            return None if name is None or name.startswith(OWN) else name
    return None


def remote_name(rule: BridgeRule, local: str) -> str | None:
    """What a name of ours is at the remote; None if the rule does not carry it."""
    return _exchanged(local, rule.local_prefix, rule.remote_prefix) if matches(rule.local_filter, local) else None


def _exchanged(name: str, prefix: str, other: str) -> str | None:
    """`a/#` wants `a` as well, which has no prefix `a/` to exchange."""
    if not name.startswith(prefix):
        return None
    exchanged = other + name[len(prefix) :]
    return exchanged if is_valid_name(exchanged) else None
