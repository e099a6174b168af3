"""Starts of a controller's directory, which reveal an old copy of it, or an emptied one.

Each start has a number and a random token, durable before anybody is told of it. A directory that lacks a start that
was heard, or has another one in its place, has forgotten its votes since.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MAX_TOKENS: Final = 32
"""Most starts that a directory remembers. A copy that was started so often unheard is not found."""


class DirectoryStart(Struct, frozen=True):
    """A start. `run`: its number. `tokens`: of the last ones, this one's at the end."""

    incarnation: str
    run: int
    tokens: tuple[str, ...] = ()

    @property
    def token(self) -> str:
        return self.tokens[-1] if self.tokens else ""

    def next(self, token: str) -> DirectoryStart:
        """Return the start after this one."""
        return DirectoryStart(self.incarnation, self.run + 1, (*self.tokens, token)[-MAX_TOKENS:])

    def old_copy(self, controller: int, known: DirectoryStart) -> str:
        """Return the reason why it is neither the start heard as `known`, nor a later one; empty where it is."""
        fault = self._fault(known)
        if not fault:
            return ""
        return f"controller {controller} comes with {fault}; remove it, and add a controller with a new id"

    def _fault(self, known: DirectoryStart) -> str:
        if self.incarnation != known.incarnation:
            return "another directory than it had: it may have forgotten votes"
        if self.run < known.run:
            return f"run {self.run}, run {known.run} was heard: its directory is an old copy"
        place = len(self.tokens) - 1 - (self.run - known.run)
        if place >= 0 and known.token and self.tokens[place] != known.token:
            return f"another run {known.run} than was heard: its directory, or that of a second one, is a copy"
        return ""
