"""The tiers, as pytest knows them: `--tier`, parameters of other tiers left out, the budget, the end of a slice."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.support.processes.launcher import warm
from tests.tiers import marks
from tests.tiers.budget import excess

_MARKS = {
    "interop": "with other people's clients, suites or servers; runs in `make interop`",
    "soak": "long: kills, floods, deep searches; runs in `make soak`",
    "scaled": "runs in `make test`, and longer in `make soak`",
    "everywhere": "has all its parameters in `make test`, but for those of interop",
    "failure": "states a row of the table of failures in docs/deployment.md (tests/failures)",
    "failure_also": "is a further test of the row that begins with this text",
}
_CALL_OF_TEST_CASE = "runTest"
_SEARCH_SECONDS = 900
"""After that a property test of the soak profile is taken to hang."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=marks.CHOICES, default="default", help="tier to run; rest: interop and soak")
    group.addoption("--for-seconds", type=float, default=0, help="begin no test later than that; 0: no end")
    group.addoption("--case", default="", help="of tests that loop over cases, run those whose names have this text")
    group.addoption("--list-to", default="", help="write the chosen tests and how many cases each loops over, as JSON")
    group.addoption("--any-length", action="store_true", help="keep no budget: what runs alone finds nothing warm")
    group.addoption("--order", default="", help="take the files in an order that this text decides")


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in _MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    marks.choose(config.getoption("tier"))
    settings.load_profile(marks.scaled("default", "soak"))
    seconds = config.getoption("for_seconds")
    config.stash[_END] = time.monotonic() + seconds if seconds else float("inf")
    if os.environ.get("PYTEST_XDIST_WORKER"):
        warm()  # while tests are collected, not while the first of them waits for a server


_END = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collected tests stay: looking for garbage among it would cost a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, Any, Any]:
    """Parameters of other tiers are not made into tests at all: thousands of them would cost seconds in each worker."""
    own = {mark.name for mark in metafunc.definition.iter_markers()}
    if "everywhere" not in own:
        metafunc.parametrize = _without_other_tiers(metafunc.parametrize, own)  # type: ignore[method-assign]
    return (yield)


def _without_other_tiers(parametrize: Callable[..., None], own: set[str]) -> Callable[..., None]:
    def filtered(argnames: Any, argvalues: Any, *further: Any, **named: Any) -> None:
        values = list(argvalues)
        kept = [at for at, value in enumerate(values) if marks.is_chosen(marks.tiers_of(own | _marks_of(value)))]
        if kept and len(kept) < len(values):
            ids = named.get("ids")
            if ids is not None and not callable(ids):
                named["ids"] = [list(ids)[at] for at in kept]
            values = [values[at] for at in kept]
        parametrize(argnames, values, *further, **named)

    return filtered


def _marks_of(value: Any) -> set[str]:
    return {mark.name for mark in getattr(value, "marks", ())}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of other tiers, and put the files in the order asked for."""
    kept: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        names = {mark.name for mark in item.iter_markers()}
        is_property = _is_property(item)
        is_in = marks.is_chosen(marks.tiers_of(names, is_property=is_property))
        (kept if is_in else others).append(item)
        searches = is_property or "scaled" in names
        if searches and "timeout" not in names and marks.scaled(False, True):
            item.add_marker(pytest.mark.timeout(_SEARCH_SECONDS))
    if others:
        config.hook.pytest_deselected(items=others)
    if order := config.getoption("order"):
        kept.sort(key=lambda item: hashlib.sha256(f"{order} {_place(config, item)}".encode()).digest())
    items[:] = kept


def _place(config: pytest.Config, item: pytest.Item) -> str:
    return item.path.relative_to(config.rootpath).as_posix()


def _is_property(item: pytest.Item) -> bool:
    function = getattr(item, "obj", None)
    return function is not None and (is_hypothesis_test(function) or item.name == _CALL_OF_TEST_CASE)


def pytest_collection_finish(session: pytest.Session) -> None:
    if path := session.config.getoption("list_to"):
        found = {item.nodeid: len(getattr(getattr(item, "obj", None), "cases", [None])) for item in session.items}
        Path(path).write_text(json.dumps(found))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """When the time is over, what has not begun is left out, without a word for each."""
    return True if time.monotonic() > item.config.stash[_END] else None


_SHARED = pytest.StashKey[float]()
"""Seconds that a test's setup gave to fixtures which other tests use, too."""


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    if fixturedef.scope == "function":
        return (yield)
    item = request._pyfuncitem
    before, began = item.stash.get(_SHARED, 0.0), time.perf_counter()
    try:
        return (yield)
    finally:
        item.stash[_SHARED] = before + time.perf_counter() - began  # what it asked for in turn lies within


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    options = item.config.option
    if options.tier == "default" and not options.any_length and report.passed:
        shared = item.stash.get(_SHARED, 0.0) if report.when == "setup" else 0.0
        told = excess(item.nodeid, report.when or "", report.duration - shared)
        if told is not None:
            report.outcome = "failed"
            report.longrepr = told
    return report
