"""Brokers of the tests with controllers."""

from __future__ import annotations

import pytest

from tests.support.brokers.quick_brokers import work_often


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work that a broker does by itself, done often."""
    work_often(monkeypatch)
