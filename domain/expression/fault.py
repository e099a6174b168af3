"""Refusals of filter expressions: always one code, always with the place of the fault."""

from __future__ import annotations

from typing import Final

from entrepot.domain.errors import Code, EntrepotError

SHOWN_LENGTH: Final = 40
"""Most characters of a client's own text in an error."""


def fault(what: str, place: int) -> EntrepotError:
    """Return the refusal of an expression with a fault at an index; the text counts positions from 1."""
    return EntrepotError(Code.ILLEGAL_FILTER_EXPRESSION, f"illegal filter expression at position {place + 1}: {what}")


def shown(text: str) -> str:
    """Return the text as an error shows it: quoted and shortened."""
    return repr(text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "...")
