"""The type of a column that is found in samples: most messages decide, whichever comes first."""

from __future__ import annotations

from collections import Counter

import pytest

from entrepot.spark_ingest.source.schemas import _prevailing


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
