"""A server with bridges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.bridges import bridge_settings
from tests.support.server import ServerProcess


@pytest.fixture
def bridged(tmp_path: Path) -> Callable[..., ServerProcess]:
    """Makes a server with remotes; use it as a context."""

    def make(*remotes: dict[str, Any], **settings: str) -> ServerProcess:
        directory = tmp_path / "ours"
        directory.mkdir(exist_ok=True)
        return ServerProcess(directory, {**bridge_settings(*remotes), **settings})

    return make
