"""Many cases in one test: what `pytest.mark.parametrize` does, without an item, fixtures and a server for each.

Every case runs, and each that fails is reported by its name.  `--case TEXT` runs those whose name has the text.
Fixtures are made once for all cases: where a case needs its own, use `pytest.mark.parametrize`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final

import pytest
from _pytest.mark.structures import ParameterSet
from _pytest.outcomes import OutcomeException

Test = Callable[..., Any]
Case = tuple[str, dict[str, Any]]
"""A name, and arguments of the test."""
_SHOWN: Final = (str, int, float, complex, bool, type(None))


def cases(names: str | Sequence[str], values: Iterable[Any], ids: Callable[[Any], Any] | Sequence[str] = ()) -> Any:
    """Decorate a test that is called with each of `values`; `names`, `values` and `ids` as of parametrize.

    Two of them at one test: each of the one with each of the other.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = list(_table(arguments, list(values), ids))

    def decorate(test: Test) -> Test:
        lower: list[Case] = getattr(test, "cases", [])
        alone = getattr(test, "without_cases", test)
        both = [(f"{a}-{b}", {**x, **y}) for a, x in lower for b, y in table] if lower else table
        return _looped(alone, both)

    return decorate


def _looped(test: Test, table: list[Case]) -> Test:
    signature = inspect.signature(test)
    fixtures = [each for name, each in signature.parameters.items() if name not in table[0][1]]
    asked = {each.name for each in fixtures}
    further = [name for name in ("request", "subtests") if name not in asked]
    loop = _in_a_coroutine if inspect.iscoroutinefunction(test) else _in_turn
    made = functools.wraps(test)(loop(test, table, asked))
    del made.__wrapped__  # type: ignore[attr-defined]  # pytest would take its arguments for those of this one
    own = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in further]
    made.__signature__ = signature.replace(parameters=[*fixtures, *own])  # type: ignore[attr-defined]
    made.cases, made.without_cases = table, test  # type: ignore[attr-defined]
    return made


def _in_turn(test: Test, table: list[Case], asked: set[str]) -> Test:
    def run(**given: Any) -> None:
        __tracebackhide__ = True
        passed = {name: given[name] for name in asked}
        failed: list[str] = []
        for name, case in _wanted(table, given):
            with _told(name, failed, given["subtests"]):
                test(**case, **passed)
        _tell(failed, table)

    return run


def _in_a_coroutine(test: Test, table: list[Case], asked: set[str]) -> Test:
    async def run(**given: Any) -> None:
        __tracebackhide__ = True
        passed = {name: given[name] for name in asked}
        failed: list[str] = []
        for name, case in _wanted(table, given):
            with _told(name, failed, given["subtests"]):
                await test(**case, **passed)
        _tell(failed, table)

    return run


@contextmanager
def _told(name: str, failed: list[str], subtests: pytest.Subtests) -> Iterator[None]:
    """A failure within is reported as that of the case of this name, and noted; the next case goes on."""
    try:
        yield
    except (Exception, OutcomeException):
        failed.append(name)
        with subtests.test(name):
            raise


def _tell(failed: list[str], table: list[Case]) -> None:
    """The loop fails by itself too: a worker's count of failed subtests stays in the worker."""
    __tracebackhide__ = True
    if failed:
        pytest.fail(f"{len(failed)} of {len(table)} cases failed: {', '.join(failed)}", pytrace=False)


def _wanted(table: list[Case], given: dict[str, Any]) -> list[Case]:
    text = given["request"].config.getoption("case")
    chosen = [case for case in table if text in case[0]]
    if not chosen:
        pytest.skip(f"no case has {text!r} in its name")
    return chosen


def _table(arguments: list[str], values: list[Any], ids: Callable[[Any], Any] | Sequence[str]) -> Iterator[Case]:
    assert values, "a test without cases proves nothing"
    told: Sequence[str | None] = [None] * len(values) if callable(ids) or not ids else ids
    for at, value in enumerate(values):
        own = value.id if isinstance(value, ParameterSet) else None
        if isinstance(value, ParameterSet):
            assert not value.marks, "a case has no marks: use pytest.mark.parametrize"
            value = value.values if len(arguments) > 1 else value.values[0]
        given = list(value) if len(arguments) > 1 else [value]
        assert len(given) == len(arguments), f"{len(arguments)} arguments, and a case of {len(given)}: {value!r}"
        name = own or told[at] or "-".join(_shown(each, arguments[n], at, ids) for n, each in enumerate(given))
        yield name, dict(zip(arguments, given, strict=True))


def _shown(value: Any, argument: str, at: int, ids: Callable[[Any], Any] | Sequence[str]) -> str:
    if callable(ids) and (told := ids(value)) is not None:
        return str(told)
    if isinstance(value, (Enum, *_SHOWN)):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("latin-1").encode("unicode_escape").decode()
    return getattr(value, "__name__", None) or f"{argument}{at}"
