"""CESQL's own test suite, where there is a copy of it: what it says is covered by `cesql_cases.py` too.

Through a server: `tests/conformance/cloudevents/test_filters.py`.
"""

from __future__ import annotations

import pytest

from entrepot.domain.expression.cesql.expression import compile_cesql
from entrepot.domain.expression.cesql.tokens import CesqlParseError
from tests.unit.expression.cesql_tck import PARSE, TckCase, tck_cases

EVENT = {"specversion": "1.0", "id": "1", "source": "/tck", "type": "tck"}


@pytest.mark.parametrize("case", tck_cases())
def test_tck(case: TckCase) -> None:
    if case.error == PARSE:
        with pytest.raises(CesqlParseError):
            compile_cesql(case.expression)
        return
    found = compile_cesql(case.expression).evaluate({**EVENT, **case.attributes})
    assert (found.error.kind.value if found.error else None) == case.error
    if case.result is not None:
        assert (type(found.value), found.value) == (type(case.result), case.result)
