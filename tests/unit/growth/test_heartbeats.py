"""A broker's heartbeat costs the same however many topics there are; a change is told by the next one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.server.registration import Registrar
from entrepot.domain.route import BrokerInfo
from entrepot.domain.topic import Topic


class CountedTopology:
    """Topics, and how often all of them were read."""

    def __init__(self) -> None:
        self.reads = 0
        self.found = [Topic(f"t{number}", queues=4) for number in range(3)]
        self.watcher: Callable[[str], None] = lambda name: None

    def topics(self) -> list[Topic]:
        self.reads += 1
        return list(self.found)

    def watch_topics(self, watcher: Callable[[str], None]) -> Callable[[], None]:
        self.watcher = watcher
        return lambda: None


def told(registrar: Registrar) -> tuple[int, list[str]]:
    made = registrar._registration()
    return made.version, [topic.name for topic in made.topics]


async def test_topics_are_read_once_for_each_change():
    topology, infos = CountedTopology(), [INFO]
    registrar = Registrar(
        [],
        LinkSettings("b"),
        SimpleNamespace(topology=topology),  # type: ignore[arg-type]
        lambda: infos[-1],
        register_seconds=30,
        heartbeat_seconds=1,
        on_refused=lambda error: None,
    )
    for _ in range(5):
        assert told(registrar) == (1, ["t0", "t1", "t2"])
    assert topology.reads == 1
    topology.found.append(Topic("t3", queues=1))
    topology.watcher("t3")
    for _ in range(5):
        assert told(registrar) == (2, ["t0", "t1", "t2", "t3"])
    assert topology.reads == 2
    topology.watcher("t3")
    assert told(registrar)[0] == 2, "what changed back is no change"
    infos.append(BrokerInfo("b", 1, "127.0.0.1:2", "s", 1))
    assert told(registrar) == (3, ["t0", "t1", "t2", "t3"])
    assert topology.reads == 3
    await registrar.close()


INFO = BrokerInfo("b", 1, "127.0.0.1:1", "s", 1)
