"""The command line in the process of a test."""

from __future__ import annotations

from functools import cache

import pytest
import typer.main

_built_once = cache(typer.main.get_command)


def build_commands_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser of all commands is the same for each call: building it takes as long as a dozen requests."""
    monkeypatch.setattr(typer.main, "get_command", _built_once)
