"""A gateway without a store of its own loads no storage engine, and neither does the command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = "import sys, {}; print(*sorted(name for name in sys.modules if name.startswith('entrepot.broker')))"

OF_THE_WIRE = {"entrepot.broker", "entrepot.broker.remoting"}


@pytest.mark.parametrize(
    ("modules", "allowed"),
    [
        ("entrepot.gateway.cli.app", set()),
        ("entrepot.gateway.serving, entrepot.gateway.http.app, entrepot.store_client.remote", OF_THE_WIRE),
        ("entrepot.store_client.rocketmq", set()),
    ],
)
def test_no_engine_is_loaded(modules: str, allowed: set[str]) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(modules)], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {name for name in loaded if not name.startswith("entrepot.broker.remoting")} <= allowed
    assert allowed <= loaded
