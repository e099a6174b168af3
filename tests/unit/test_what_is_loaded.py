"""A gateway without a store of its own loads no storage engine, and neither does the command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from entrepot.gateway.cli.commands import PARTS

SCRIPT = "import sys, {}; print(*sorted(name for name in sys.modules if name.startswith('entrepot.broker')))"

OF_THE_WIRE = {"entrepot.broker", "entrepot.broker.remoting"}


@pytest.mark.parametrize(
    ("modules", "allowed"),
    [
        ("entrepot.gateway.cli.app", set()),
        ("entrepot.gateway.serving, entrepot.gateway.http.app, entrepot.store_client.remote", OF_THE_WIRE),
        ("entrepot.store_client.rocketmq", {"entrepot.broker"}),  # a socket alone
    ],
)
def test_no_engine_is_loaded(modules: str, allowed: set[str]) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(modules)], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {name for name in loaded if not name.startswith("entrepot.broker.remoting")} <= allowed
    assert allowed <= loaded


HEAVY = ("aiohttp", "cryptography", "grpc", "joserfc", "pyspark", "pyarrow", "prompt_toolkit")
"""Libraries that a server without webhooks, tokens, backups, etcd and tables does not need."""


def _loaded(script: str) -> set[str]:
    told = "; import sys; print('LOADED', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script + told], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("LOADED ")[2].split())


def test_a_server_loads_what_it_uses() -> None:
    rooms = "gateway.serving", "gateway.http.app", "gateway.rocketmq.door", "store_client.embedded"
    loaded = _loaded(f"import {', '.join(f'entrepot.{room}' for room in rooms)}")
    assert "fastapi" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_a_command_loads_no_other() -> None:
    loaded = _loaded("from entrepot.gateway.cli.app import run; run(['ping', '--help'])")
    parts = {f"entrepot.gateway.cli.{module}" for module in PARTS.values() if ":" not in module}
    parts |= {"entrepot.gateway.operations", "entrepot.gateway.cli.noun_commands"}
    assert loaded.isdisjoint({*parts, *HEAVY, "fastapi", "asyncio", "structlog"})
    assert "entrepot.gateway.cli.tier" in _loaded("from entrepot.gateway.cli.app import run; run(['tier', '--help'])")


@pytest.mark.parametrize("name", [name for name, part in PARTS.items() if ":" in part])
def test_commands_of_a_noun_load_no_server(name: str) -> None:
    loaded = _loaded(f"from entrepot.gateway.cli.app import run; run([{name!r}, '--help'])")
    assert f"entrepot.gateway.operations.nouns.{PARTS[name].partition(':')[0]}" in loaded
    assert loaded.isdisjoint({*HEAVY, "fastapi", "uvicorn", "entrepot.gateway.http", "entrepot.broker"})
