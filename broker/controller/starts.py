"""Starts of a controller's directory: by them an old copy of it, and an emptied one, are known.

Each start has a number and a random token, durable before anybody is told of it.  So a directory that lacks a start
that was heard, or has another one in its place, has forgotten what it voted since.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MAX_TOKENS: Final = 32
"""Named limit: of the starts that a directory remembers.  A copy that was started so often unheard is not found."""


class DirectoryStart(Struct, frozen=True):
    """`run`: number of the start.  `tokens`: of the last ones, this one's at the end."""

    incarnation: str
    run: int
    tokens: tuple[str, ...] = ()

    @property
    def token(self) -> str:
        return self.tokens[-1] if self.tokens else ""

    def next(self, token: str) -> DirectoryStart:
        """The start behind this one."""
        return DirectoryStart(self.incarnation, self.run + 1, (*self.tokens, token)[-MAX_TOKENS:])

    def old_copy(self, controller: int, known: DirectoryStart) -> str:
        """Reason why it is neither the start that was heard as `known`, nor a later one; empty where it is."""
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
