"""Healer: puts corrupted records of the log right, where other replicas have them."""

from __future__ import annotations

from typing import Final, Protocol


class Healer(Protocol):
    """Told of corrupted records by whoever meets one."""

    def note(self, commit_log_offset: int) -> bool:
        """Begin to heal the record at a place; False where nobody can."""
        ...

    async def heal(self, commit_log_offset: int) -> bool:
        """Heal it; True once it is whole."""
        ...


class NoHealer:
    """Of a store without replicas: nobody else has what is corrupted."""

    def note(self, commit_log_offset: int) -> bool:
        return False

    async def heal(self, commit_log_offset: int) -> bool:
        return False


NO_HEALER: Final = NoHealer()
