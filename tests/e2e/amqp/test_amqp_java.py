"""RabbitMQ's Java client, on blocking sockets and Netty, and Spring AMQP: the same scenes here and on RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Final
from urllib.parse import urlsplit

import pytest

from tests.support.amqp import management
from tests.support.amqp.peers.java_scenes import Outcome, play, require_java_clients
from tests.support.processes.folders import subfolder

pytestmark = pytest.mark.interop

SERVERS: Final = ("entrepot", "rabbitmq")

CLIENT_SCENES: Final = {
    "idle": "open",
    "transactions": "rolled back and committed",
    "prefetch": "m1,m2,m3,m4",
    "queue_ttl": "late count 1 expired",
    "message_ttl": "late count 1 expired",
    "confirms": "100",
    "returns": "312 NO_ROUTE, ack 1",
    "cancel": "told",
    "recovery": "after",
}
"""The outcome of each scene.  It is played once on blocking sockets, once on Netty."""

CONTAINER_SCENES: Final = {
    "ack": "m1,m2,m3",
    "manual_ack": "false,true",
    "reject": "bad rejected after 3",
    "republish": "bad after 3",
    "reply": "A,B",
}
"""Of Spring's containers of listeners, of which there are two."""

TEMPLATE_SCENES: Final = {
    "admin": "routed",
    "confirms": "50, and none by an exchange that is not there",
    "returns": "312 NO_ROUTE",
}

SCENES: Final = {
    "ClientScenes": {f"{name}-{by}": seen for name, seen in CLIENT_SCENES.items() for by in ("blocking", "netty")},
    "SpringScenes": {f"{name}-{by}": seen for name, seen in CONTAINER_SCENES.items() for by in ("simple", "direct")}
    | TEMPLATE_SCENES,
}
"""The same on both servers: there is no difference to name."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], dict[str, Outcome]]]:
    """The outcomes of a server and a program, which is played at its first use."""
    require_java_clients()
    folder = tmp_path_factory.mktemp("java")
    with management.each_once(lambda name: subfolder(folder, name)) as server:

        @cache
        def outcomes(name: str, program: str) -> dict[str, Outcome]:
            at = server(name)
            return play(program, at.port, urlsplit(at.url).port or 0)

        yield outcomes


@pytest.mark.parametrize(
    ("program", "scene"), [(program, scene) for program, scenes in SCENES.items() for scene in scenes]
)
@pytest.mark.parametrize("server", SERVERS)
def test_java_scene(server: str, program: str, scene: str, played: Callable[[str, str], dict[str, Outcome]]) -> None:
    assert played(server, program)[scene] == Outcome("ok", SCENES[program][scene])


@pytest.mark.parametrize("program", SCENES)
@pytest.mark.parametrize("server", SERVERS)
def test_java_plays_these_scenes(server: str, program: str, played: Callable[[str, str], dict[str, Outcome]]) -> None:
    assert set(played(server, program)) == set(SCENES[program])
