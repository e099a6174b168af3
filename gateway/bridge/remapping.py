"""Topic names on both sides of a bridge, by its rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.domain.routing.topic_filter import is_valid_name, matches
from entrepot.gateway.settings import BridgeRule

OWN: Final = "$"
"""First character of a server's own names: a remote cannot publish under ours."""


def local_name(rules: Sequence[BridgeRule], remote_name: str) -> str | None:
    """The local name of a remote one, by the first rule in that matches, or None."""
    for rule in rules:
        if matches(rule.remote_filter, remote_name):
            name = _exchanged(remote_name, rule.remote_prefix, rule.local_prefix)
            return None if name is None or name.startswith(OWN) else name
    return None


def remote_name(rule: BridgeRule, local: str) -> str | None:
    """The remote name of a local one, or None if the rule does not carry it."""
    return _exchanged(local, rule.local_prefix, rule.remote_prefix) if matches(rule.local_filter, local) else None


def _exchanged(name: str, prefix: str, other: str) -> str | None:
    """Exchange the prefix; `a/#` matches `a` as well, which lacks the prefix `a/`."""
    if not name.startswith(prefix):
        return None
    exchanged = other + name[len(prefix) :]
    return exchanged if is_valid_name(exchanged) else None
