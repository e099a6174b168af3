"""Revisions: the order of definitions of one topic or group on several brokers.

ADR 17: definitions without a master. Invariant: a broker never puts a lower revision in the place of a higher one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.topic import Topic

BY_USE: Final = 1
"""Revision of a definition created by use: any explicit definition replaces it."""
_Definition = TypeVar("_Definition", Topic, ConsumerGroup)


def revised(wanted: _Definition, existing: _Definition | None) -> _Definition | None:
    """Return the definition that a broker is to keep; None if it has this one already, or a later one.  A definition
    without a revision always applies: it comes from a client of a single store, and follows the existing one."""
    if existing is None:
        return wanted
    if not wanted.revision:
        if wanted == existing:
            return None
        return replace(wanted, revision=existing.revision + 1) if existing.revision else wanted
    return wanted if wanted.revision > existing.revision else None
