"""`entrepot shovel rabbitmq`: queues of ours, and of Debian's rabbitmq-server, drained into ours, with kills."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pika  # type: ignore[import-untyped]
import pytest

from tests.support.amqp.rabbitmq import RabbitMQ
from tests.support.amqp.servers import USERS
from tests.support.processes.launcher import WarmProcess, launch
from tests.support.processes.ports import free_port
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import interop_only

pytestmark = pytest.mark.timeout(300)
MANY = 4000
PREFETCH = 50


@pytest.fixture(scope="module", params=["serve", interop_only("rabbitmq")])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of the broker that is drained."""
    directory = tmp_path_factory.mktemp("source")
    if request.param == "rabbitmq":
        with RabbitMQ(directory) as node:
            yield node.port
    else:
        with ServerProcess(directory, USERS) as process:
            yield process.port("amqp")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("target")) as process:
        yield process


def connect(port: int, vhost: str = "/") -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, vhost))


def url(port: int, vhost: str = "") -> str:
    return f"amqp://guest:guest@127.0.0.1:{port}/{vhost}"


def fill(port: int, queue: str, count: int, first: int = 0, **arguments: Any) -> None:
    connection = connect(port)
    channel = connection.channel()
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.confirm_delivery()
    for n in range(first, first + count):
        channel.basic_publish("", queue, str(n).encode(), pika.BasicProperties(delivery_mode=2, message_id=str(n)))
    connection.close()


def declare(port: int, queue: str, **arguments: Any) -> int:
    """The number of messages that are ready."""
    connection = connect(port)
    count: int = connection.channel().queue_declare(queue, durable=True, arguments=arguments).method.message_count
    connection.close()
    return count


def drain(port: int, queue: str) -> list[tuple[pika.BasicProperties, bytes]]:
    connection = connect(port)
    channel = connection.channel()
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append((got[1], got[2]))
    connection.close()
    return found


@dataclass(frozen=True)
class Shovel:
    """The command in a process of its own, and what it prints."""

    process: WarmProcess
    log: Path

    def ended(self, code: int = 0) -> list[dict[str, Any]]:
        """Its last words, when it has ended."""
        assert self.process.wait(PATIENCE_SECONDS) == code, self.text()
        assert "Traceback" not in self.text()
        found: list[dict[str, Any]] = json.loads(self.text()) if self.text().startswith("[") else []
        return found

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_SECONDS)

    def text(self) -> str:
        return self.log.read_text()


Begin = Callable[..., Shovel]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """Starts the command between two brokers."""
    numbers = itertools.count()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ENTREPOT_")}

    def begun(source: int, target: int, *arguments: str) -> Shovel:
        log = tmp_path / f"shovel-{next(numbers)}"
        places = ["--from", url(source), "--to", url(target)]
        command = ["shovel", "rabbitmq", *places, "--prefetch", str(PREFETCH), *arguments]
        return Shovel(launch(command, environment, log), log)

    return begun


def new_name() -> str:
    return f"s-{uuid4().hex[:10]}"


def test_properties_and_order_stay(source: int, server: ServerProcess, begin: Begin) -> None:
    queue, target = new_name(), server.port("amqp")
    given = [
        pika.BasicProperties(
            content_type="text/plain",
            content_encoding="utf-8",
            headers={"text": "grüße", "number": 2**40, "flag": True, "list": [1, "x"], "table": {"deep": b"\xff"}},
            delivery_mode=2,
            priority=7,
            correlation_id="c",
            reply_to="r",
            expiration="60000",
            message_id="first",
            timestamp=1_700_000_000,
            type="t",
            app_id="a",
        ),
        pika.BasicProperties(delivery_mode=1, message_id="second"),
        pika.BasicProperties(message_id="third", user_id="guest", headers={"CC": ["elsewhere"]}),
    ]
    connection = connect(source)
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.exchange_declare("made", "fanout")
    channel.queue_bind(queue, "made")
    for n, properties in enumerate(given):
        channel.basic_publish("made", "key", b"\x00" * n, properties)
    connection.close()
    declare(target, queue)
    [told] = begin(source, target, "--queue", queue, "--origin", "--json").ended()
    assert (told["carried"], told["changed"], told["problem"]) == (3, 1, None)
    arrived = drain(target, queue)
    assert [body for _, body in arrived] == [b"", b"\x00", b"\x00\x00"]
    origin = {"x-original-exchange": "made", "x-original-routing-key": "key"}
    first, second, third = (properties for properties, _ in arrived)
    assert first.headers == {**given[0].headers, **origin}
    for name in vars(given[0]):
        if name != "headers":
            assert getattr(first, name) == getattr(given[0], name), name
    assert (second.message_id, second.delivery_mode, second.headers) == ("second", 1, origin)
    assert third.headers == {"x-cc": ["elsewhere"], **origin} and third.user_id == "guest"
    assert declare(source, queue) == 0


@pytest.mark.soak
def test_nothing_is_lost_when_the_shovel_is_killed(source: int, server: ServerProcess, begin: Begin) -> None:
    queue, target = new_name(), server.port("amqp")
    fill(source, queue, MANY)
    declare(target, queue)
    for share in (1, 2):
        shovel = begin(source, target, "--queue", queue)
        wait_until(lambda share=share: declare(target, queue) > MANY * share // 20, "some were carried")
        shovel.kill()
    left = declare(source, queue)
    assert 0 < left < MANY
    begin(source, target, "--queue", queue, "--json").ended()
    assert declare(source, queue) == 0
    arrived = [int(body) for _, body in drain(target, queue)]
    counts = Counter(arrived)
    assert sorted(counts) == list(range(MANY))
    assert sum(counts.values()) - MANY <= 2 * PREFETCH  # no more twice than were on their way
    firsts = list(dict.fromkeys(arrived))
    assert firsts == sorted(firsts)


@pytest.mark.soak
def test_nothing_is_lost_when_the_target_is_killed(source: int, tmp_path: Path, begin: Begin) -> None:
    queue = new_name()
    fill(source, queue, MANY)
    with ServerProcess(tmp_path) as target:
        declare(target.port("amqp"), queue)
        shovel = begin(source, target.port("amqp"), "--queue", queue, "--json")
        wait_until(lambda: declare(target.port("amqp"), queue) > MANY // 4, "some were carried")
        target.kill()
        target.restart()
        [told] = shovel.ended()
        assert told["problem"] is None and told["carried"] >= MANY - PREFETCH
        assert {int(body) for _, body in drain(target.port("amqp"), queue)} == set(range(MANY))
    assert declare(source, queue) == 0


def test_it_follows_until_it_is_told_to_end(source: int, server: ServerProcess, begin: Begin) -> None:
    first, second, target = new_name(), new_name(), server.port("amqp")
    for queue in (first, second):
        fill(source, queue, 3)
        declare(target, queue)
    shovel = begin(source, target, "--queue", first, "--queue", second, "--follow")
    for count in (3, 5):
        for queue in (first, second):
            wait_until(lambda queue=queue, count=count: declare(target, queue) == count, "they are carried")
        if count == 3:
            for queue in (first, second):
                fill(source, queue, 2, 3)
    shovel.process.send_signal(signal.SIGINT)
    shovel.ended(code=130)


def test_a_queue_that_is_full_is_waited_for_and_a_kill_meanwhile_loses_nothing(
    source: int, server: ServerProcess, begin: Begin
) -> None:
    queue, target = new_name(), server.port("amqp")
    fill(source, queue, 10)
    full = {"x-max-length": 4, "x-overflow": "reject-publish"}
    declare(target, queue, **full)
    killed = begin(source, target, "--queue", queue, "--json")
    wait_until(lambda: declare(target, queue, **full) == 4, killed.text)
    killed.kill()
    shovel = begin(source, target, "--queue", queue, "--json")
    arrived: list[bytes] = []

    def all_arrived() -> bool:
        arrived.extend(body for _, body in drain(target, queue))
        return len(set(arrived)) == 10

    wait_until(all_arrived, lambda: f"only {arrived} came")
    shovel.ended()
    assert declare(source, queue) == 0


def test_all_queues_that_both_have(source: int, server: ServerProcess, begin: Begin) -> None:
    """Between two virtual hosts, one of them named like the other's namespace."""
    target = server.port("amqp")
    api = f"http://{server.address('http')}/api"
    httpx2.put(f"{api}/vhosts/moved", timeout=20, trust_env=False).raise_for_status()
    names = [new_name() for _ in range(6)]
    for queue in names[:5]:
        fill(source, queue, 7)
    for queue in names[1:]:
        body = {"durable": True}
        httpx2.put(f"{api}/queues/moved/{queue}", json=body, timeout=20, trust_env=False).raise_for_status()
    flags = ["--all", "--server", f"http://{server.address('http')}", "--json", "--to", url(target, "moved")]
    told = begin(source, target, *flags).ended()
    assert {each["queue"]: each["carried"] for each in told} == dict.fromkeys(names[1:5], 7)
    assert declare(source, names[0]) == 7  # the target has none such


def test_what_cannot_be_carried_is_told(source: int, server: ServerProcess, begin: Begin) -> None:
    target = server.port("amqp")
    here, there = new_name(), new_name()
    fill(source, there, 1)
    declare(target, here)
    told = begin(source, target, "--queue", here, "--queue", there, "--json").ended(code=1)
    problems = {each["queue"]: each["problem"] for each in told}
    assert problems[here].endswith("at the source") and problems[there].endswith("at the target")
    assert declare(source, there) == 1


def test_a_source_that_cannot_be_reached_is_told(source: int, server: ServerProcess, begin: Begin) -> None:
    queue = new_name()
    declare(server.port("amqp"), queue)
    wrong = {
        f"amqp://guest:wrong@127.0.0.1:{source}/": "refuses the login",
        url(source, "nowhere"): "cannot be reached",
        url(free_port()): "cannot be reached",
    }
    begun = [begin(source, server.port("amqp"), "--queue", queue, "--from", each, "--json") for each in wrong]
    for shovel, problem in zip(begun, wrong.values(), strict=True):
        [refused] = shovel.ended(code=1)
        assert problem in refused["problem"], refused


def test_flags_that_make_no_sense_are_refused(begin: Begin) -> None:
    source, target = 5, 6
    flags: tuple[tuple[str, ...], ...] = (
        ("--queue", "q", "--to", url(source)),  # onto itself
        (),
        ("--queue", "q", "--all"),
        ("--queue", "q", "--to", "http://127.0.0.1"),
    )
    for shovel in [begin(source, target, *each) for each in flags]:
        shovel.ended(code=2)
        assert shovel.text().startswith("entrepot: "), shovel.text()
