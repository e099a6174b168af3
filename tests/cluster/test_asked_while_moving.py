"""What clients ask in the very moment in which the mastership moves: it is done at the next master, on the connections
that there are, or is told as unknown."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pika  # type: ignore[import-untyped]
import pytest

from entrepot.protocols.mqtt.packets import Connack, Connect
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.support.amqp.load import parameters
from tests.support.doors.load import door
from tests.support.http.group_member import GroupMember
from tests.support.mqtt.session_client import SessionClient
from tests.support.processes.replicated_processes import ReplicatedProcesses
from tests.support.rocketmq.client import GrpcClient, resource
from tests.support.soak_table import tell
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(120)]
MOVES = 3
DEDUPLICATED = 100
"""Events of one publish that are looked up."""
UNKNOWN = ("504", str(v2.PROXY_TIMEOUT))
"""Answers of doors where something had left and was not answered."""
Ask = Callable[[int], str]
"""Asks with a number; the answer in short, empty where it is well."""


@pytest.fixture(scope="module")
def replicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedProcesses]:
    with ReplicatedProcesses(tmp_path_factory.mktemp("asked"), "2-3", replicas=3) as running:
        yield running


class Asker:
    """Asks one thing after the other; `answers` counts those that are not well."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.asked = 0
        self.answers: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_over:
                if answer := self._ask(self.asked):
                    self.answers[answer] += 1
                self.asked += 1
        except BaseException as failure:
            self.failure = failure

    def goes_on(self) -> None:
        """Return when it has been answered some more times."""
        enough = self.asked + 3
        wait_until(lambda: self.asked >= enough or self.failure, "it goes on")
        assert self.failure is None, repr(self.failure)

    def end(self) -> None:
        self._is_over = True
        self._thread.join(30)


def through_moves(cluster: ReplicatedProcesses, name: str, ask: Ask) -> Counter[str]:
    """What was not well of what was asked while the master moved."""
    asker = Asker(ask)
    try:
        for _ in range(MOVES):
            cluster.wait_in_sync(3)
            asker.goes_on()
            cluster.elect(to=cluster.master() % 3 + 1)
            asker.goes_on()
    finally:
        asker.end()
    print(name, asker.asked, dict(asker.answers))
    tell(f"asked while a master moves: {name}", messages=asker.asked, faults=MOVES)
    return asker.answers


def test_methods_of_amqp(replicated: ReplicatedProcesses) -> None:
    connection = pika.BlockingConnection(parameters(replicated.gateways[0].port("amqp")))
    channel = connection.channel()
    channel.queue_declare("asked", durable=True)

    def ask(number: int) -> str:
        nonlocal channel
        try:
            channel.queue_declare(f"q{number}", durable=True)
            channel.queue_bind(f"q{number}", "amq.direct", "k")
            channel.basic_get("asked")
            channel.queue_delete(f"q{number}")
        except pika.exceptions.ChannelClosedByBroker as closed:
            channel = connection.channel()
            return str(closed.reply_code)
        return ""

    answers = through_moves(replicated, "AMQP", ask)
    assert answers.keys() <= {"541"} and answers.total() <= MOVES, "only what was under way, and only its channel"


def test_sessions_of_mqtt(replicated: ReplicatedProcesses) -> None:
    port = replicated.gateways[0].port("mqtt")

    def ask(number: int) -> str:
        with SessionClient(port, f"asked{number % 5}") as client:
            client.say(Connect(client.client_id, 5, False, properties={PropertyId.SESSION_EXPIRY_INTERVAL: 600}))
            answer = client.expect(Connack)
            if answer.reason:
                return f"{answer.reason.name} {answer.properties.get(PropertyId.REASON_STRING, '')}"
            client.subscribe(f"asked/{number}/#")
        return ""

    answers = through_moves(replicated, "MQTT", ask)
    assert all(answer.endswith("its outcome is unknown") for answer in answers), answers
    assert answers.total() <= MOVES


def test_pulls_and_settlements_by_http(replicated: ReplicatedProcesses) -> None:
    with door(replicated.gateways[0]) as client:
        assert client.put("/api/v1/topics/pulled", json={}).status_code in (200, 201)
        path = "/topics/pulled/eventsubscriptions/g"

        def ask(number: int) -> str:
            answer = client.post(f"{path}:receive?maxEvents=1&maxWaitTime=0")
            if answer.status_code != 200:
                return str(answer.status_code)
            return ""

        answers = through_moves(replicated, "HTTP", ask)
    assert answers.keys() <= set(UNKNOWN) and answers.total() <= MOVES


def test_events_of_a_topic_that_drops_repeated_ones(replicated: ReplicatedProcesses) -> None:
    with door(replicated.gateways[0]) as client:
        assert client.put("/api/v1/topics/once", json={}).status_code in (200, 201)
        assert client.put("/api/v1/topics/once/event-rules", json={"dedupSeconds": 600}).status_code == 200
        headers = {"content-type": "application/cloudevents-batch+json"}

        def ask(number: int) -> str:
            # Each event is looked up in the store by itself, so that most of the time is spent on it.
            common = {"specversion": "1.0", "source": "/asked", "type": "t", "data": number}
            events = [{**common, "id": f"e{number}-{each}"} for each in range(DEDUPLICATED)]
            answer = client.post("/topics/once:publish", content=json.dumps(events), headers=headers)
            return "" if answer.status_code == 200 else f"{answer.status_code} {answer.text}"

        answers = through_moves(replicated, "deduplicated events", ask)
    assert all(answer.startswith("504") for answer in answers) and answers.total() <= MOVES, answers


def test_heartbeats_and_commits_of_members(replicated: ReplicatedProcesses) -> None:
    with door(replicated.gateways[0]) as client:
        assert client.put("/api/v1/topics/shared", json={"queues": 2}).status_code in (200, 201)
        member = GroupMember(client, "shared", "one")
        member.heartbeat()

        def ask(number: int) -> str:
            answer = member.commit(number % 2, 0)
            return "" if answer.status_code == 200 else f"{answer.status_code} {answer.text}"

        answers = through_moves(replicated, "members", ask)
    assert answers.keys() <= set(UNKNOWN) and answers.total() <= MOVES


def test_calls_of_rocketmq(replicated: ReplicatedProcesses) -> None:
    with GrpcClient(replicated.gateways[0].address("grpc")) as client:
        client.send(client.message("called", b"0"))

        def ask(number: int) -> str:
            [entry] = client.send(client.message("called", b"x", message_type=v2.TRANSACTION)).entries
            question = v2.EndTransactionRequest(
                topic=resource("called"), transaction_id=entry.transaction_id, resolution=v2.COMMIT
            )
            codes = [entry.status.code, client.call("EndTransaction", question).status.code]
            status, found = client.try_receive("called", "g", 10)
            if found:
                codes += [each.status.code for each in client.ack("called", "g", *found).entries]
            codes.append(v2.OK if status.code == v2.MESSAGE_NOT_FOUND else status.code)
            return next((str(code) for code in codes if code != v2.OK), "")  # of several, the first that is not well

        answers = through_moves(replicated, "RocketMQ", ask)
    assert answers.keys() <= set(UNKNOWN) and answers.total() <= MOVES
