"""Healer: repairs corrupted records of the log from other replicas."""

from __future__ import annotations

from typing import Final, Protocol


class Healer(Protocol):
    """A repairer, told of corrupted records by their readers."""

    def note(self, commit_log_offset: int) -> bool:
        """Begin to heal the record at an offset; False if nobody can."""

    async def heal(self, commit_log_offset: int) -> bool:
        """Heal the record at an offset; True once it is whole."""


class NoHealer:
    """The healer of a store without replicas: nobody else has the record."""

    def note(self, commit_log_offset: int) -> bool:
        return False

    async def heal(self, commit_log_offset: int) -> bool:
        return False


NO_HEALER: Final = NoHealer()
