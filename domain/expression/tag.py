"""RocketMQ's tag expressions: `*`, `red`, `red || green`."""

from __future__ import annotations

from typing import Final

from entrepot.domain.expression.fault import fault

MATCH_ALL: Final = "*"
SEPARATOR: Final = "||"
MAX_TAG_EXPRESSION_LENGTH: Final = 16_384
MAX_TAG_ALTERNATIVES: Final = 512
_BLANKS: Final = " \t\r\n\f"


def parse_tags(text: str) -> frozenset[str] | None:
    """Return the tags of an expression, or None if it matches every message, tagged or not.

    As in RocketMQ's `FilterAPI`: `*` and the empty text match everything, blanks around a tag are ignored, and an empty
    alternative is skipped.  `*` beside other alternatives is an ordinary tag, and so is a text with a single `|`.
    Raises ILLEGAL_FILTER_EXPRESSION for an expression of separators only, and beyond the limits.
    """
    if len(text) > MAX_TAG_EXPRESSION_LENGTH:
        raise fault(f"a tag expression has at most {MAX_TAG_EXPRESSION_LENGTH} characters", MAX_TAG_EXPRESSION_LENGTH)
    if text.strip(_BLANKS) in ("", MATCH_ALL):
        return None
    tags: set[str] = set()
    place = 0
    for alternative in text.split(SEPARATOR):
        if tag := alternative.strip(_BLANKS):
            tags.add(tag)
        if len(tags) > MAX_TAG_ALTERNATIVES:
            raise fault(f"a tag expression has at most {MAX_TAG_ALTERNATIVES} alternatives", place)
        place += len(alternative) + len(SEPARATOR)
    if not tags:
        raise fault(f"there is no tag beside {SEPARATOR!r}", text.index(SEPARATOR))
    return frozenset(tags)
