"""Debian's packages that the suites need: which these are, and which are not installed here."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tests.conformance.amqp.suites import Source, Suite
from tests.support.amqp import rabbitmq

GO_PACKAGE: Final = "github.com/rabbitmq/amqp091-go"

IS_INSTALLED: Final[Mapping[str, Callable[[], bool]]] = {
    "rabbitmq-server": rabbitmq.is_installed,
    "redis-server": lambda: shutil.which("redis-server") is not None,
    "golang-go": lambda: shutil.which("go") is not None,
}
"""By name: what is asked of the machine, as the program may have come in another way."""


def of_suite(suite: Suite) -> tuple[str, ...]:
    """What a suite needs, whichever server it is run against."""
    if suite.source is Source.GO:
        return ("golang-go",)
    return ("redis-server",) if suite.needs_redis else ()


def of_server(server: str) -> tuple[str, ...]:
    """What a server needs."""
    return ("rabbitmq-server",) if server == "rabbitmq" else ()


def missing(names: Iterable[str]) -> tuple[str, ...]:
    """Those that are not installed, each once."""
    return tuple(name for name in dict.fromkeys(names) if not IS_INSTALLED[name]())


def told(names: Iterable[str]) -> str:
    """One line that says what is missing, and what to do."""
    listed = " ".join(names)
    return f"not installed: {listed}; on Debian: apt-get install --no-install-recommends {listed}"
