"""The broker's own key-values, beside those of its clients, who neither see nor change them: deletions of definitions,
its identity, and the marks of its tables. They are in the log, so replicas have them, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValue

OWN: Final = "%definitions/"
"""Prefix of these keys."""


def check_keys(keys: Sequence[str]) -> None:
    """Raise FORBIDDEN for the broker's own keys."""
    for key in keys:
        if key.startswith(OWN):
            raise EntrepotError(Code.FORBIDDEN, f"{key!r} is the broker's own")


def visible(found: Sequence[KeyValue]) -> list[KeyValue]:
    """Return the key-values that clients may see."""
    return [each for each in found if not each.key.startswith(OWN)]
