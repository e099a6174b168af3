"""A plugin of the runs in a copy: it tells the first test that failed, and sees that the copy is what is tested.

The budget of time is off: a test that is slow beside others has found no fault.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, settings

import entrepot.broker
import entrepot.domain
import entrepot.gateway
import entrepot.protocols
import entrepot.spark_ingest
import entrepot.store_client
from tests.tiers import budget
from tests.tiers.run import plain

FIRST_FAILURE: Final = "ENTREPOT_FIRST_FAILURE"
"""Names the file that the first failing test is written to."""
_ROOMS: Final = (
    entrepot.broker,
    entrepot.domain,
    entrepot.gateway,
    entrepot.protocols,
    entrepot.spark_ingest,
    entrepot.store_client,
)


def pytest_configure(config: pytest.Config) -> None:
    """Raises UsageError where a room is another checkout's."""
    budget.BUDGET_SECONDS = float("inf")  # type: ignore[misc]
    for room in _ROOMS:
        found = Path(room.__file__ or "").resolve()
        if not found.is_relative_to(config.rootpath.resolve()):
            raise pytest.UsageError(f"{room.__name__} is {found}, and not in {config.rootpath}")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart() -> None:
    """That an example fails is enough: a smaller one is not looked for."""
    phases = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
    settings.register_profile("mutants", settings.get_profile("default"), phases=phases)
    settings.load_profile("mutants")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        target = Path(os.environ[FIRST_FAILURE])
        if not target.exists():
            target.write_text(plain(report.nodeid))
