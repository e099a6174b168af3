"""Refusals inside of answers: why one of many was refused."""

from __future__ import annotations

from typing import Final

from entrepot.domain.errors import EntrepotError, FieldError
from entrepot.gateway.operations.row.shapes import Shown, shown_as


class RefusalShown(Shown, frozen=True):
    """Why one of many was refused"""

    code: str
    message: str


REFUSAL: Final = RefusalShown("INVALID_RECEIPT_HANDLE", "the delivery is over")
"""Its example."""
shown_as(REFUSAL)


def refusal_shown(refusal: EntrepotError) -> RefusalShown:
    """Return the refusal of one element of a list."""
    return RefusalShown(refusal.code.name, sentence_of(refusal))


def sentence_of(error: EntrepotError) -> str:
    """Return a refusal's message, with a definition's field spelled as in JSON."""
    return f"{_camel(error.field)} {error.sentence}" if isinstance(error, FieldError) else error.message


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(map(str.capitalize, more))
