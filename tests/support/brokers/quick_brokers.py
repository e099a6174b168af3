"""Brokers whose own work is done often, so that tests need not wait for it."""

from __future__ import annotations

import pytest


def work_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have brokers of this process save, decide and look around many times a second."""
    monkeypatch.setattr("entrepot.broker.replication.slave_store.SAVE_SECONDS", 0.05)
    monkeypatch.setattr("entrepot.broker.server.registration.DECISION_SECONDS", 0.1)
    monkeypatch.setattr("entrepot.broker.background_steps.STEP_SECONDS", 0.05)
