"""The disk that a run takes: a folder that a fixture made goes with the fixture.

Each store allocates 64 MiB ahead, and pytest keeps all folders of three runs: a run of the default tier left 18 GB, and
the next one met a full disk.  Where a test failed while the fixture lived, its folder stays, as pytest's own policy for
`tmp_path` has it (`tmp_path_retention_policy` in pyproject.toml).
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class _Made:
    """Folders that a fixture made, and the count of tests that had failed before it."""

    failed_before: int
    folders: list[Path] = field(default_factory=list)


@dataclass(eq=False)
class FixtureFolders:
    """The plugin: it hears of each folder that is made, and of each fixture that ends."""

    failed: int = 0
    _of: dict[pytest.FixtureDef[Any], _Made] = field(default_factory=dict)
    _under_way: list[_Made] = field(default_factory=list)
    """Fixtures being set up: one may ask for another."""

    def listen_to(self, config: pytest.Config) -> None:
        """Hear of the folders that this run's factory makes."""
        factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
        make = factory.mktemp

        def mktemp(basename: str, numbered: bool = True) -> Path:
            folder = make(basename, numbered)
            if self._under_way:
                self._under_way[-1].folders.append(folder)
            return folder

        factory.mktemp = mktemp  # type: ignore[method-assign]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed += report.failed

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        self._of[fixturedef] = made = _Made(self.failed)
        self._under_way.append(made)
        try:
            return (yield)
        finally:
            self._under_way.pop()

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        made = self._of.pop(fixturedef, None)
        if made is not None and made.failed_before == self.failed:
            for folder in made.folders:
                shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    folders = FixtureFolders()
    folders.listen_to(config)
    config.pluginmanager.register(folders)
