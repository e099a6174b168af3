"""CESQL's own test suite, where there is a copy of it: `CESQL_TCK=<folder of its YAML files>`.

It is not part of this repository; what it says is covered by `cesql_cases.py` too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from domain.expression.cesql.expression import compile_cesql
from domain.expression.cesql.tokens import CesqlParseError

FOLDER = os.environ.get("CESQL_TCK")
EVENT = {"specversion": "1.0", "id": "1", "source": "/tck", "type": "tck"}


class _Loader(yaml.SafeLoader):
    """Leaves timestamps the strings that they are in an event."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: node.value)


def _cases() -> list[Any]:
    if FOLDER is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason="CESQL_TCK names no folder of CESQL's test suite"))]
    files = sorted(Path(FOLDER).glob("*.yaml"))
    assert files, f"no YAML files in {FOLDER}"
    suites = [(path.stem, yaml.load(path.read_text(), Loader=_Loader)) for path in files]
    return [pytest.param(case, id=f"{stem}: {case['name']}") for stem, suite in suites for case in suite["tests"]]


@pytest.mark.parametrize("case", _cases())
def test_tck(case):
    if "expression" not in case:
        pytest.skip("the case has no expression")
    event = case.get("event") or {**EVENT, **case.get("eventOverrides", {})}
    if case.get("error") == "parse":
        with pytest.raises(CesqlParseError):
            compile_cesql(str(case["expression"]))
        return
    found = compile_cesql(str(case["expression"])).evaluate(event)
    assert (found.error.kind.value if found.error else None) == case.get("error")
    if "result" in case:
        assert (type(found.value), found.value) == (type(case["result"]), case["result"])
