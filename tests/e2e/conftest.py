"""Servers that the tests of the doors run on: one process; a name server, two brokers and a gateway; a gateway in
front of Apache RocketMQ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.e2e.rocketmq_exceptions import ALL, DIFFERENT, LEFT_OUT
from tests.support.processes.deployment import Deploy
from tests.support.rocketmq.in_front import AT_ROCKETMQ, at_rocketmq, deployment_of
from tests.tiers.marks import soak_only


@pytest.fixture(scope="session", params=["serve", soak_only("separate"), AT_ROCKETMQ])
def deploy(request: pytest.FixtureRequest) -> Deploy:
    """Makes a server of a directory and settings: one process, or several in the soak tier and for chosen tests."""
    return deployment_of(request)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that do not pass in front of Apache RocketMQ.  A slice of the tiers has none of the others: beside
    tests of all kinds a broker is too slow for them."""
    if config.getoption("tier") == "rest":
        config.hook.pytest_deselected(items=[item for item in items if at_rocketmq(item)])
        items[:] = [item for item in items if not at_rocketmq(item)]
    for item in items:
        if not at_rocketmq(item) or not item.path.is_relative_to(Path(__file__).parent):
            continue
        file = item.path.relative_to(Path(__file__).parent).with_suffix("").as_posix()
        names = (*_names(item), ALL)
        if (reason := _reason(LEFT_OUT.get(file, {}), names)) is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
        elif (reason := _reason(DIFFERENT.get(file, {}), names)) is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _names(item: pytest.Item) -> tuple[str, ...]:
    """The names of a test in the lists: with its case, if it is one row of a table, and without."""
    name = getattr(item, "originalname", item.name)
    case = item.callspec.params.get("case") if isinstance(item, pytest.Function) else None
    return (f"{name}: {case.feature}", name) if hasattr(case, "feature") else (name,)


def _reason(listed: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((listed[name] for name in names if name in listed), None)
