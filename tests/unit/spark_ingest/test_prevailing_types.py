"""The type of a column that is found in samples: most messages decide, whichever comes first."""

from __future__ import annotations

from collections import Counter

import pytest

from entrepot.spark_ingest.source.schemas import _kinds, _prevailing


@pytest.mark.parametrize(
    ("kinds", "prevailing"),
    [
        ({"string": 1, "bigint": 900}, "bigint"),
        ({"bigint": 1, "string": 900}, "string"),
        ({"bigint": 900, "double": 1}, "double"),
        ({"": 900, "bigint": 1}, "bigint"),
        ({"string": 1, "bigint": 500, "double": 400}, "double"),
        ({"struct<`a`: bigint>": 9, "struct<`a`: bigint, `b`: bigint>": 1}, "struct<`a`: bigint, `b`: bigint>"),
        ({"": 3}, ""),
    ],
)
def test_most_values_decide(kinds: dict[str, int], prevailing: str) -> None:
    assert _prevailing(Counter(kinds)) == prevailing


def test_odd_bodies_of_a_sample() -> None:
    assert _kinds({"n": 2**63 - 1, "m": 2**63, "k": -(2**63), "j": -(2**63) - 1, "`": 1, "": 1}) == {
        "n": "bigint",
        "m": "double",
        "k": "bigint",
        "j": "double",
    }
    holds_itself: list[object] = []
    holds_itself.append(holds_itself)
    assert _kinds({"n": holds_itself}) == {} and _kinds([1]) == {} and _kinds(None) == {}
