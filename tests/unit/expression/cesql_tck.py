"""CESQL's own test suite, where there is a copy of it: `CESQL_TCK=<folder of its YAML files>`.

It is not part of this repository.  Take the files of a release: older ones disagree with version 1.0.
So `NOT 10` was an error of a cast before numbers were cast to Booleans.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]

FOLDER: Final = os.environ.get("CESQL_TCK")
PARSE: Final = "parse"


@dataclass(frozen=True)
class TckCase:
    """`result`: what the suite says of the value; None if it says nothing.  `error`: its kind, None if there is none.
    `attributes`: what the event must have; the required ones that are not among them may be anything."""

    expression: str
    result: bool | int | str | None
    error: str | None
    attributes: dict[str, Any]


class _Loader(yaml.SafeLoader):
    """Leaves timestamps the strings that they are in an event."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: node.value)


def tck_cases() -> list[Any]:
    """Values for parametrize: each case of the suite, or one that is skipped."""
    if FOLDER is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason="CESQL_TCK names no folder of CESQL's test suite"))]
    files = sorted(Path(FOLDER).glob("*.yaml"))
    assert files, f"no YAML files in {FOLDER}"
    suites = [(path.stem, yaml.load(path.read_text(), Loader=_Loader)) for path in files]
    return [_case(f"{stem}: {one['name']}", one) for stem, suite in suites for one in suite["tests"]]


def _case(name: str, one: dict[str, Any]) -> Any:
    if "expression" not in one:
        return pytest.param(None, marks=pytest.mark.skip(reason="the case has no expression"), id=name)
    attributes = one.get("event") or one.get("eventOverrides") or {}
    case = TckCase(str(one["expression"]), one.get("result"), one.get("error"), attributes)
    return pytest.param(case, id=name)
