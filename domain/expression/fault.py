"""Refusals of filter expressions: always one code, always with the place of the fault."""

from __future__ import annotations

from typing import Final

from domain.errors import Code, EntrepotError

SHOWN_LENGTH: Final = 40
"""Characters of a client's own text that an error repeats."""


def fault(what: str, place: int) -> EntrepotError:
    """The refusal of an expression that is wrong at an index of its text; people are told positions from 1."""
    return EntrepotError(Code.ILLEGAL_FILTER_EXPRESSION, f"illegal filter expression at position {place + 1}: {what}")


def shown(text: str) -> str:
    """The text as an error shows it: quoted, and not longer than is useful."""
    return repr(text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "...")
