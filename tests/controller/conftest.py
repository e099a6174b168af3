"""Brokers of the tests with controllers."""

from __future__ import annotations

import pytest


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work that a broker does by itself, done often."""
    monkeypatch.setattr("entrepot.broker.replication.slave_store.SAVE_SECONDS", 0.05)
    monkeypatch.setattr("entrepot.broker.server.registration.DECISION_SECONDS", 0.1)
    monkeypatch.setattr("entrepot.broker.broker.BACKGROUND_STEP_SECONDS", 0.05)
