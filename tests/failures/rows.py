"""Rows of the table, read from the marks of tests without an import of any test.

`@pytest.mark.failure("A gateway dies", group="Gateways", does="...", lost="nothing")` states a row at the test that
proves it.  `@pytest.mark.failure_also("A gateway dies")` names a further test of that row.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GROUPS: Final = (
    "Gateways and clients",
    "A broker without replicas",
    "Replicas of a broker",
    "Network",
    "Disks",
    "Directories, copies and backups",
    "Controllers and name servers",
    "Clocks",
    "Strangers and floods",
    "Operators' mistakes and maintenance",
    "The object store",
)
"""The parts of the table, in their order."""
MOST_WORDS: Final = 25
"""Words that each field of a row may have."""
STATED: Final = "failure"
FURTHER: Final = "failure_also"
_NEEDED: Final = frozenset(("group", "does", "lost"))
_FIELDS: Final = _NEEDED | {"told"}


@dataclass(frozen=True, slots=True)
class Row:
    """A failure as an operator meets it: what fails, what happens, what is lost, where it is told, what proves it."""

    fails: str
    group: str
    does: str
    lost: str
    told: str
    tests: tuple[str, ...]


class WrongMarkError(Exception):
    """A mark that makes no row; the text has the place and the reason."""


def collect(root: Path) -> list[Row]:
    """The rows of all tests below `root`/tests, in the order of the table.  Raises WrongMarkError."""
    stated: dict[str, tuple[str, dict[str, str]]] = {}
    further: dict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if f"mark.{STATED}" not in text:
            continue
        for name, function in _functions(ast.parse(text).body):
            test = f"{path.relative_to(root).as_posix()}::{name}"
            for mark, call in _marks(function, test):
                fails, fields = _read(call, test)
                if mark == FURTHER:
                    further[fails].append(test)
                elif fails in stated:
                    raise WrongMarkError(f"{test}: {stated[fails][0]} states the row {fails!r} already")
                else:
                    stated[fails] = (test, _checked(fields, test))
    for fails, tests in further.items():
        if fails not in stated:
            raise WrongMarkError(f"{tests[0]}: no test states the row {fails!r}")
    rows = [Row(fails, **fields, tests=(test, *further[fails])) for fails, (test, fields) in stated.items()]
    return sorted(rows, key=lambda row: (GROUPS.index(row.group), row.fails.lower()))


def _functions(body: list[ast.stmt], within: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for each in body:
        if isinstance(each, ast.ClassDef):
            yield from _functions(each.body, f"{within}{each.name}::")
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield within + each.name, each


def _marks(function: ast.FunctionDef | ast.AsyncFunctionDef, test: str) -> Iterator[tuple[str, ast.Call]]:
    for decorator in function.decorator_list:
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        if not isinstance(named, ast.Attribute) or named.attr not in (STATED, FURTHER):
            continue
        if not function.name.startswith("test_") or not isinstance(decorator, ast.Call):
            raise WrongMarkError(f"{test}: a row is stated at a test, with its fields")
        yield named.attr, decorator


def _read(call: ast.Call, test: str) -> tuple[str, dict[str, str]]:
    """What fails, and the other fields, as the mark writes them."""
    values = [(None, each) for each in call.args] + [(each.arg, each.value) for each in call.keywords]
    read: dict[str | None, str] = {}
    for name, value in values:
        if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
            raise WrongMarkError(f"{test}: the fields of a row are plain texts")
        read[name] = value.value
    if len(call.args) != 1 or not read[None]:
        raise WrongMarkError(f"{test}: the mark begins with what fails")
    return read[None], {name: text for name, text in read.items() if name is not None}


def _checked(fields: dict[str, str], test: str) -> dict[str, str]:
    if missing := _NEEDED - fields.keys():
        raise WrongMarkError(f"{test}: the row has no {', '.join(sorted(missing))}")
    if unknown := fields.keys() - _FIELDS:
        raise WrongMarkError(f"{test}: a row has no field {', '.join(sorted(unknown))}")
    if fields["group"] not in GROUPS:
        raise WrongMarkError(f"{test}: there is no group {fields['group']!r}")
    for name, text in fields.items():
        if not text or len(text.split()) > MOST_WORDS:
            raise WrongMarkError(f"{test}: {name!r} has 1 to {MOST_WORDS} words")
    return {"told": "", **fields}
