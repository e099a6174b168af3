"""Pages merged from several gateways: nothing is left out, nothing comes twice."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from entrepot.gateway.peers.gathered import Gathered, merged

NAMES = st.text("abc", min_size=1, max_size=3)


def page_of(rows: list[str], after: str, limit: int) -> dict[str, Any]:
    """What one gateway answers: the rows behind a cursor, in order."""
    found = [name for name in sorted(rows) if name > after]
    more = found[limit - 1] if len(found) > limit else None
    return {"value": [{"id": name} for name in found[:limit]], "next": more}


@given(st.dictionaries(st.sampled_from(["gw-1", "gw-2", "gw-3"]), st.sets(NAMES), min_size=1), st.integers(1, 4))
def test_pages_together_are_all_rows_once(gateways: dict[str, set[str]], limit: int) -> None:
    found: list[tuple[str, str]] = []
    after, pages = "", 0
    while True:
        answers = {name: page_of([*rows], after, limit) for name, rows in gateways.items()}
        page, following = merged(Gathered(answers), "id", limit)
        assert len({row["id"] for row in page}) <= limit
        found += [(row["id"], row["gateway"]) for row in page]
        pages += 1
        if following is None:
            break
        assert page
        assert following == page[-1]["id"] > after
        after = following
    assert sorted(found) == sorted((row, name) for name, rows in gateways.items() for row in rows)
    assert [name for name, _ in found] == sorted(name for name, _ in found)
    assert pages <= 1 + len({row for rows in gateways.values() for row in rows})


def test_who_is_missing_is_named() -> None:
    gathered = Gathered({"gw-1": 1}, {"gw-2": "no answer within 1.5 s"})
    assert gathered.shape() == {
        "asked": 2,
        "answered": 1,
        "missing": [{"name": "gw-2", "reason": "no answer within 1.5 s"}],
    }
