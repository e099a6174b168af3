"""A gateway that restarts, or is killed beside another one: running clients go on, and keep what they hold."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.e2e.rocketmq.conftest import PATIENT, SETTINGS
from tests.support.processes.deployment import ClusterProcesses, start_all
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient, resource
from tests.support.rocketmq.peers.peer import RefusedError, RocketMqPeer
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

LONG_SECONDS = 2 * PATIENCE_SECONDS
WRITTEN_DOWN_SECONDS = 4
"""What is held for longer than a moment is written down by then."""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, SETTINGS) as started:
        yield started


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path, SETTINGS, gateways=2) as started:
        yield started


@pytest.fixture(scope="module")
def whole_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("gateways"), SETTINGS, gateways=2) as started:
        yield started


@pytest.fixture
def shared(whole_cluster: ClusterProcesses) -> Iterator[ClusterProcesses]:
    """Started again after a test, as far as the test killed it."""
    yield whole_cluster
    start_all(whole_cluster.all)


def send_through(peer: RocketMqPeer, producer: int, topic: str, bodies: range) -> None:
    """Send each, again while nobody answers."""
    for number in bodies:
        deadline = time.monotonic() + LONG_SECONDS
        while True:
            try:
                peer.send(producer, topic, b"%d" % number)
                break
            except RefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.1)  # the SDK's own attempts are over: the next round


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", ["python", "node"])
@pytest.mark.parametrize("is_kill", [False, True], ids=["stopped", "killed"])
def test_clients_go_on_after_a_restart(own_server: ServerProcess, language: str, is_kill: bool) -> None:
    with RocketMqPeer(own_server.address("grpc"), language) as peer:
        producer = peer.producer("t")
        consumer, simple = peer.push("pushed", "t"), peer.simple("pulled", "t", wait=5)
        send_through(peer, producer, "t", range(10))
        wait_until(lambda: len(peer.done[consumer]) >= 10, "before", LONG_SECONDS)
        assert len(peer.take(simple, 10)) == 10
        if is_kill:
            own_server.kill()
        else:
            assert own_server.stop() == 0
        own_server.restart()
        send_through(peer, producer, "t", range(10, 20))

        def consumed() -> set[bytes]:
            return {each.body for each in peer.pushed[consumer]}

        expected = {b"%d" % number for number in range(20)}
        wait_until(lambda: consumed() >= expected, lambda: str(sorted(consumed())), LONG_SECONDS)
        found: set[bytes] = set()
        deadline = time.monotonic() + LONG_SECONDS
        while not found >= {b"%d" % number for number in range(10, 20)}:
            assert time.monotonic() < deadline, found
            try:
                for each in peer.receive(simple):
                    found.add(each.body)
                    peer.ack(simple, each)
            except RefusedError:
                time.sleep(0.1)
        tell(f"{language} clients of a server that was restarted", messages=20, faults=1)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("is_kill", [False, True], ids=["stopped", "killed"])
def test_a_push_consumer_keeps_what_it_works_on_through_a_restart(tmp_path: Path, is_kill: bool) -> None:
    """The work takes longer than several leases, in one of which the server is away: nothing comes twice."""
    with ServerProcess(tmp_path, PATIENT) as own_server:
        _keep_through_a_restart(own_server, is_kill)


def _keep_through_a_restart(own_server: ServerProcess, is_kill: bool) -> None:
    with RocketMqPeer(own_server.address("grpc")) as peer:
        producer = peer.producer("t")
        consumer = peer.push("workers", "t", busy=25)
        sent = [peer.send(producer, "t", b"%d" % number)["id"] for number in range(5)]
        wait_until(lambda: len(peer.pushed[consumer]) == 5, "all are being worked on", LONG_SECONDS)
        time.sleep(WRITTEN_DOWN_SECONDS)
        if is_kill:
            own_server.kill()
        else:
            assert own_server.stop() == 0
        own_server.restart()
        wait_until(lambda: len(peer.done[consumer]) == 5, lambda: str(peer.pushed[consumer]), LONG_SECONDS)
        with GrpcClient(own_server.address("grpc")) as other:
            wait_until(lambda: not _in_flight(own_server), "acknowledged")
            assert other.receive("t", "workers", wait_ms=3000) == []
        assert [each.attempt for each in peer.pushed[consumer]] == [1] * 5
        tell("a push consumer whose server was restarted", messages=5, faults=1)
        assert sorted(peer.done[consumer]) == sorted(sent)


def _in_flight(server: ServerProcess) -> int:
    from tests.support.http.pull import http_json

    progress = http_json(server, "GET", "/api/v1/groups/workers")["progress"]
    return sum(each["inFlight"] for each in progress)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_what_a_dead_push_consumer_held_goes_to_others(tmp_path: Path) -> None:
    """Also where the gateway that renewed it is another one by then."""
    with ServerProcess(tmp_path, PATIENT) as own_server:
        _give_to_others(own_server)


def _give_to_others(own_server: ServerProcess) -> None:
    with GrpcClient(own_server.address("grpc")) as client:
        with RocketMqPeer(own_server.address("grpc")) as peer:
            producer = peer.producer("t")
            consumer = peer.push("workers", "t", busy=600)
            peer.send(producer, "t", b"held")
            wait_until(lambda: len(peer.pushed[consumer]) == 1, "held", LONG_SECONDS)
            time.sleep(WRITTEN_DOWN_SECONDS)
            own_server.kill()
            own_server.restart()
            assert client.receive("t", "workers", wait_ms=10_000) == []  # its lease is 6 s
            peer.kill()
        [found] = client.receive("t", "workers", wait_ms=25_000)
        tell("a push consumer that died with its server", messages=1, faults=2)
        assert (found.body, found.system_properties.delivery_attempt) == (b"held", 2)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", ["python", "node"])
@pytest.mark.parametrize("is_told", [False, True], ids=["the client knows both", "the route names both"])
def test_one_of_two_gateways_is_killed(cluster: ClusterProcesses, language: str, is_told: bool) -> None:
    first, second = cluster.gateways
    if language == "node" and not is_told:
        pytest.skip("rocketmq-client-nodejs 1.0.8 makes one host name of several addresses")
    both = f"{first.address('grpc')};{second.address('grpc')}"
    if is_told:
        for gateway in cluster.gateways:
            assert gateway.stop() == 0
            gateway.settings["grpc.addresses"] = json.dumps(both.split(";"))
            gateway.start()
    with RocketMqPeer(both.split(";")[0] if is_told else both, language) as peer:
        producer, consumer = peer.producer("t"), peer.push("workers", "t", busy=1)
        sent = 0
        for gateway in (first, second, first):
            send_through(peer, producer, "t", range(sent, sent + 20))
            sent += 20
            gateway.kill()
            send_through(peer, producer, "t", range(sent, sent + 20))
            sent += 20
            gateway.start()
        expected = {b"%d" % number for number in range(sent)}

        def consumed() -> set[bytes]:
            return {each.body for each in peer.pushed[consumer]}

        wait_until(lambda: consumed() >= expected, lambda: str(sorted(expected - consumed())), LONG_SECONDS)
        tell(
            f"{language} clients of two gateways that are killed",
            rounds=3,
            messages=sent,
            phantom=len(consumed() - expected),
            duplicated=len(peer.pushed[consumer]) - len(consumed()),
            faults=3,
        )
        assert consumed() == expected


def test_who_has_given_up_all_lite_topics_is_given_none(tmp_path: Path) -> None:
    """Nor the whole topic, also by a gateway that has never heard of him."""
    with ServerProcess(tmp_path, SETTINGS) as own_server:
        for action in (v2.COMPLETE_ADD, v2.PARTIAL_REMOVE):
            with GrpcClient(own_server.address("grpc"), client_id="one") as client:
                question = v2.SyncLiteSubscriptionRequest(
                    action=action, topic=resource("t"), group=resource("g"), lite_topic_set=["mine"]
                )
                assert client.call("SyncLiteSubscription", question).status.code == v2.OK
        with GrpcClient(own_server.address("grpc"), client_id="one") as client:
            client.send(client.message("t", b"theirs", lite_topic="theirs", message_type=v2.LITE))
        own_server.kill()
        own_server.restart()
        with GrpcClient(own_server.address("grpc"), client_id="one") as client:
            assert client.receive("t", "g", wait_ms=500) == []


@pytest.mark.xdist_group("rocketmq gateways")
def test_a_delivery_is_settled_through_another_gateway(shared: ClusterProcesses, topic: str, group: str) -> None:
    first, second = (GrpcClient(gateway.address("grpc"), client_id=group) for gateway in shared.gateways)
    with first, second:
        first.send(*(first.message(topic, b"%d" % number) for number in range(4)))
        found: list[v2.Message] = []
        while len(found) < 4:
            found += first.receive(topic, group, wait_ms=5000)
        shared.gateways[0].kill()
        assert second.ack(topic, group, *found[:2]).status.code == v2.OK
        question = v2.ChangeInvisibleDurationRequest(
            topic=found[2].topic,
            group=v2.Resource(name=group),
            receipt_handle=found[2].system_properties.receipt_handle,
        )
        assert second.call("ChangeInvisibleDuration", question).status.code == v2.OK
        [again] = second.receive(topic, group, wait_ms=10_000)
        assert again.body == found[2].body


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_goodbye_at_another_gateway(tmp_path: Path) -> None:
    """What a push consumer got through one gateway, and says goodbye to at another, goes to others at once."""
    with ClusterProcesses(tmp_path, PATIENT, gateways=2) as cluster:
        _say_goodbye_at_another(cluster)


def _say_goodbye_at_another(cluster: ClusterProcesses) -> None:
    first, second = (GrpcClient(gateway.address("grpc"), client_id="one") for gateway in cluster.gateways)
    with first, second:
        first.send(first.message("t", b"held"))
        [held] = first.receive("t", "workers", wait_ms=5000, auto_renew=True)
        heartbeat = v2.HeartbeatRequest(group=v2.Resource(name="workers"), client_type=v2.PUSH_CONSUMER)
        for _ in range(3):  # for longer than a lease of 6 s
            assert first.call("Heartbeat", heartbeat).status.code == v2.OK
            assert second.receive("t", "workers", wait_ms=2500) == []
        goodbye = v2.NotifyClientTerminationRequest(group=v2.Resource(name="workers"))
        assert second.call("NotifyClientTermination", goodbye).status.code == v2.OK
        [found] = second.receive("t", "workers", wait_ms=3000)
        tell("a goodbye at another gateway", messages=1)
        assert found.system_properties.message_id == held.system_properties.message_id


@pytest.mark.xdist_group("rocketmq gateways")
def test_a_half_message_outlives_its_gateway(shared: ClusterProcesses, topic: str, group: str) -> None:
    first, second = (GrpcClient(gateway.address("grpc")) for gateway in shared.gateways)
    with first, second:
        entries = first.send(
            first.message(topic, b"yes", message_type=v2.TRANSACTION),
            first.message(topic, b"no", message_type=v2.TRANSACTION),
        ).entries
        shared.gateways[0].kill()
        for entry, resolution in zip(entries, (v2.COMMIT, v2.ROLLBACK), strict=True):
            question = v2.EndTransactionRequest(
                topic=v2.Resource(name=topic), transaction_id=entry.transaction_id, resolution=resolution
            )
            assert second.call("EndTransaction", question).status.code == v2.OK
        assert [found.body for found in second.receive(topic, group, wait_ms=10_000)] == [b"yes"]


@pytest.mark.xdist_group("rocketmq gateways")
def test_lite_subscriptions_outlive_their_gateway(shared: ClusterProcesses, topic: str, group: str) -> None:
    first, second = (GrpcClient(gateway.address("grpc"), client_id=group) for gateway in shared.gateways)
    with first, second:
        question = v2.SyncLiteSubscriptionRequest(
            action=v2.COMPLETE_ADD, topic=v2.Resource(name=topic), group=v2.Resource(name=group), lite_topic_set=["a"]
        )
        assert first.call("SyncLiteSubscription", question).status.code == v2.OK
        for name in ("a", "b"):
            first.send(first.message(topic, name.encode(), lite_topic=name, message_type=v2.LITE))
        [found] = second.receive(topic, group, wait_ms=10_000)
        assert found.body == b"a"
        question.lite_topic_set.append("c")  # said at one gateway, it counts at the other
        assert first.call("SyncLiteSubscription", question).status.code == v2.OK
        first.send(first.message(topic, b"c", lite_topic="c", message_type=v2.LITE))
        shared.gateways[0].kill()
        assert [found.body for found in second.receive(topic, group, wait_ms=10_000)] == [b"c"]
