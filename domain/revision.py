"""Revisions: which of the definitions of one topic or group holds, where several brokers have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from domain.consumer_group import ConsumerGroup
from domain.topic import Topic

BY_USE: Final = 1
"""The revision of what came into being by use: whatever anybody says of it holds over that."""
_Definition = TypeVar("_Definition", Topic, ConsumerGroup)


def revised(wanted: _Definition, existing: _Definition | None) -> _Definition | None:
    """What a broker is to keep when told a definition; None where it has that already, or a later one.

    One without a revision always holds: it is for who talks to one store alone, and follows what is there.
    """
    if existing is None:
        return wanted
    if not wanted.revision:
        if wanted == existing:
            return None
        return replace(wanted, revision=existing.revision + 1) if existing.revision else wanted
    return wanted if wanted.revision > existing.revision else None
