"""The refusal of one element of a list, as it is shown."""

from __future__ import annotations

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.operations.problem import sentence_of
from entrepot.gateway.operations.shapes import Shown, shown_as


class RefusalShown(Shown, frozen=True):
    """Why one of many was refused"""

    code: str
    message: str


shown_as(RefusalShown("INVALID_RECEIPT_HANDLE", "the delivery is over"))


def refusal_of(refusal: EntrepotError) -> RefusalShown:
    """Return a refusal as it is shown."""
    return RefusalShown(refusal.code.name, sentence_of(refusal))
