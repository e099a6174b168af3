"""Sets of topic names that MQTT filters stand for: containment and overlap.  Filters are given as levels.  Both checks
take time linear in the levels.  A name is a filter without wildcards.  Names that begin with `$` match no filter that
begins with a wildcard (MQTT 5.0, 4.7.2)."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain.routing import topic_filter


def covers(wide: Sequence[str], narrow: Sequence[str]) -> bool:
    """True if `wide` matches every name that `narrow` matches."""
    if _is_all(narrow):
        return _is_all(wide)
    for depth, want in enumerate(wide):
        if want == "#":
            return depth > 0 or narrow[0][:1] != "$"
        if depth >= len(narrow):
            return False
        given = narrow[depth]
        if given == "#":
            return False  # it matches at this depth both no level and many
        if want == "+":
            if depth == 0 and given[:1] == "$":
                return False
        elif want != given:
            return False
    return len(wide) == len(narrow)


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """True if some name matches both filters."""
    first, second = one[0], other[0]
    if first != second and "$" in (first[:1], second[:1]):
        return False
    return topic_filter.overlap(one, other)


def prefix_covers(prefix: str, narrow: Sequence[str]) -> bool:
    """True if every name that `narrow` matches begins with the prefix."""
    fixed: list[str] = []
    for level in narrow:
        if level == "#":
            break
        if level == "+":
            fixed.append("")  # the separator before it is in every name
            break
        fixed.append(level)
    return "/".join(fixed).startswith(prefix)


def prefix_overlaps(prefix: str, other: Sequence[str]) -> bool:
    """True if some name that begins with the prefix matches `other`."""
    wanted = prefix.split("/")
    last = len(wanted) - 1
    for depth, want in enumerate(wanted):
        if depth >= len(other):
            return False
        given = other[depth]
        if given in ("#", "+") and depth == 0 and want[:1] == "$":
            return False
        if given == "#":
            return True
        if given == "+":
            continue
        if not (given.startswith(want) if depth == last else given == want):
            return False
    return True


def _is_all(levels: Sequence[str]) -> bool:
    """True for `#`, and for `+/#`, which means the same."""
    return levels[-1] == "#" and (len(levels) == 1 or (len(levels) == 2 and levels[0] == "+"))
