"""Failures of commands: one line on standard error and an exit code."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1
"""The server refused, or could not be reached."""
USAGE: Final = 2
"""The command line or the settings are wrong: trying again changes nothing."""


class CommandError(Exception):
    """A command's failure, in words for the person who typed it."""

    def __init__(self, message: str, exit_code: int = FAILED, *, status: int | None = None) -> None:
        """`status` is that of the server's answer, if it refused."""
        super().__init__(message)
        self.message = message
        self.status = status
        self.exit_code = exit_code
