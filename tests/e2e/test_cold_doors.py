"""Every door over topics that are wholly cold: what clients read is in the object store, and nowhere else."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pika  # type: ignore[import-untyped]
import pytest

from entrepot.protocols.mqtt.packets import Puback
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.e2e.http.steps import get, ids, is_problem, receive, settle
from tests.e2e.test_every_pair_of_doors import DOORS, KEPT, PUBLISH
from tests.support.amqp.load import parameters
from tests.support.http.client import http_client
from tests.support.http.event_streams import source
from tests.support.http.webhook_receiver import WebhookReceiver, body_of
from tests.support.mqtt.client import RawClient
from tests.support.mqtt.session_client import EXPIRY_SECONDS, SessionClient
from tests.support.processes.deployment import Deploy
from tests.support.rocketmq.client import GrpcClient, resource
from tests.support.rocketmq.peers.peer import RocketMqPeer
from tests.support.tiered.cold_doors import ALL, COUNT, LATER, LETTERS, TIERED, Cold, number_of, serving_cold
from tests.support.tiered.cold_readers import READ, stream
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cold_doors")
TRACE = "%TRACE%"
LETTER_TOPIC = "%DLQ%careless"


@pytest.fixture(scope="module")
def cold(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cold]:
    found = serving_cold(deploy, tmp_path_factory.mktemp("cold"))
    with found.server:
        _fill(found)
        found.freeze()
        yield found


def _fill(cold: Cold) -> None:
    """All that the tests read, by each door; sessions go away before it, and consumers reject what is to be told of."""
    for number in range(len(DOORS)):
        cold.put_topic(f"t{number}", queues=1, **TIERED)
    for name, fields in {
        "line": {},
        "held": {"queues": 1},
        "bad": {"queues": 1},
        "torn": {},
        "traced": {"trace": 1},
    }.items():
        cold.put_topic(name, **{"queues": 2, **fields, **TIERED})
    cold.declare_queue("pairs", *(f"t{number}.#" for number in range(len(DOORS))), kind="stream")
    cold.declare_queue("shelf", "line.#", kind="stream")
    cold.declare_queue("kept", "line.#")
    cold.leave_session("away", "line/#")
    cold.leave_session("sharer", "$share/sharers/line/#")
    cold.held = cold.leave_session("holder", "held/#", take=3)
    cold.leave_session("waiter", "torn/#", "hot/#")
    for number, door in enumerate(DOORS):
        PUBLISH[door](cold.server, f"t{number}")
    cold.publish_line()
    cold.publish("bad", *range(LETTERS))
    cold.publish("traced", 1)
    cold.publish("torn", *range(10))
    with http_client(f"http://{cold.server.ports['http']}") as client:
        for topic, verb in (("bad", "reject"), ("traced", "acknowledge")):
            settle(client, verb, topic, receive(client, topic, "careless"), "careless")
        [traced] = get(client, "/api/v1/messages", topic="traced")["value"]
        wait_until(lambda: len(_hops(client, traced["id"])) == 3, "the trace is written")
    cold.put_topic(LETTER_TOPIC, cleanup="DELETE", **TIERED)
    cold.put_topic(TRACE, **TIERED)


@pytest.fixture
def client(cold: Cold) -> Iterator[httpx2.Client]:
    with http_client(f"http://{cold.server.ports['http']}") as opened:
        yield opened


def test_all_of_it_is_in_the_tables(cold: Cold, client: httpx2.Client) -> None:
    rows = cold.rows()
    counts = {"line": COUNT, "%AMQP%shelf": COUNT, "%AMQP%pairs": len(DOORS), LETTER_TOPIC: LETTERS, "held": 3}
    assert {name: rows[name] for name in counts} == counts
    assert all(rows[f"t{number}"] == 1 for number in range(len(DOORS)))
    offsets = get(client, "/api/v1/topics/line")["offsets"]
    assert sum(each["maxOffset"] for each in offsets) == COUNT, "they have their offsets still"
    assert {each["minOffset"] for each in offsets} == {0}


# -- each pair of doors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", DOORS)
@pytest.mark.parametrize("published_by", DOORS)
def test_each_pair_keeps_what_it_keeps_of_hot_messages(cold: Cold, published_by: str, target: str) -> None:
    assert READ[target](cold, f"t{DOORS.index(published_by)}") == KEPT[published_by, target]


# -- MQTT --------------------------------------------------------------------------------------------------------------


def _rfc3339(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


@pytest.mark.parametrize("start", ["earliest", "0", "-2h", "moment"])
def test_replay_over_mqtt_reads_cold_messages(cold: Cold, start: str) -> None:
    expected = LATER if start == "moment" else ALL
    with RawClient(cold.server.port("mqtt")) as client:
        client.connect("replay")
        client.subscribe(f"$replay/{_rfc3339(cold.moment) if start == 'moment' else start}/line/#")
        found = [number_of(each.payload) for each in client.expect_deliveries(len(expected))]
        assert sorted(found) == expected
        for name in range(3):
            in_order = [number for number in found if number % 15 == name]  # of one name and key
            assert in_order == sorted(in_order)


def test_a_replay_from_an_offset_with_a_filter(cold: Cold, client: httpx2.Client) -> None:
    offsets = {_number(one): one["queueOffset"] for one in _all_of_line(client)}
    expected = sorted(number for number, offset in offsets.items() if offset >= 3 and number % 3 == 1)
    with RawClient(cold.server.port("mqtt")) as client_of_mqtt:
        client_of_mqtt.connect("replay-offset")
        client_of_mqtt.subscribe("$replay/3/line/s1")
        found = [number_of(each.payload) for each in client_of_mqtt.expect_deliveries(len(expected))]
    assert sorted(found) == expected


@pytest.mark.parametrize("session", ["away", "sharer"])
def test_a_session_that_was_away(cold: Cold, session: str) -> None:
    """`sharer` has a shared subscription."""
    with SessionClient(cold.server.port("mqtt"), session) as client:
        assert client.open().session_present
        assert sorted(map(number_of, client.take(COUNT))) == ALL


def test_what_was_in_flight_is_sent_again(cold: Cold) -> None:
    """Until it is restored, where the object store has lost it, its client is told so."""
    with cold.without("held"), SessionClient(cold.server.port("mqtt"), "holder") as client:
        refused = client.connect(
            "holder", clean_start=False, properties={PropertyId.SESSION_EXPIRY_INTERVAL: EXPIRY_SECONDS}
        )
        assert refused.reason == ReasonCode.SERVER_UNAVAILABLE
        assert "which is gone" in refused.properties[PropertyId.REASON_STRING]
    with SessionClient(cold.server.port("mqtt"), "holder") as client:
        assert client.open().session_present
        again = client.expect_deliveries(len(cold.held))
        assert [(each.packet_id, each.payload) for each in again] == [(e.packet_id, e.payload) for e in cold.held]
        assert all(each.dup for each in again)
        client.say(*(Puback(each.packet_id) for each in again))


def test_a_session_waits_for_what_the_object_store_has_lost(cold: Cold, client: httpx2.Client) -> None:
    with SessionClient(cold.server.port("mqtt"), "waiter") as session:
        with cold.without("torn"):
            assert session.open().session_present
            wait_until(lambda: "a subscriber waits for cold messages" in cold.server.log_text(), "the log says so")
            cold.publish("hot", 1)
            assert session.next_delivery().topic == "hot/s1", "what else it is subscribed to goes on"
            for each in get(client, "/api/v1/topics/torn")["offsets"]:
                if each["maxOffset"]:
                    pull = f"/api/v1/topics/torn/queues/{each['queueId']}/messages"
                    is_problem(client.get(pull, params={"offset": 0}), 500, "which is gone")
        assert sorted(map(number_of, session.take(10))) == list(range(10))


# -- AMQP --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "first"), [("first", 0), (13, 13), ("2h", 0), ("moment", COUNT // 2)])
def test_an_amqp_stream_reads_cold_messages(cold: Cold, start: object, first: int) -> None:
    given = datetime.fromtimestamp(cold.moment, UTC) if start == "moment" else start
    read = stream(cold, "shelf", COUNT - first, given)
    assert [has.headers["x-stream-offset"] for _, has, _ in read] == list(range(first, COUNT))
    assert [number_of(body) for _, _, body in read] == list(range(first, COUNT))


def test_a_queue_whose_topic_keeps_history(cold: Cold) -> None:
    """A quorum queue: what it was sent is given out once, then it is empty."""
    found: list[int] = []
    with pika.BlockingConnection(parameters(cold.server.port("amqp"))) as connection:
        channel = connection.channel()
        assert channel.queue_declare("kept", passive=True).method.message_count == COUNT
        channel.basic_qos(prefetch_count=3)
        for method, _, body in channel.consume("kept", inactivity_timeout=1):
            if method is None:
                break
            found.append(number_of(body))
            channel.basic_ack(method.delivery_tag)
        assert channel.queue_declare("kept", passive=True).method.message_count == 0
    assert sorted(found) == ALL


def test_a_queue_that_keeps_no_history_is_not_tiered(cold: Cold, client: httpx2.Client) -> None:
    with pika.BlockingConnection(parameters(cold.server.port("amqp"))) as connection:
        connection.channel().queue_declare("work", durable=True)
    is_problem(client.put("/api/v1/topics/%25AMQP%25work", json=TIERED), 400, "tierSeconds", "DELETE")


# -- HTTP --------------------------------------------------------------------------------------------------------------


def _number(message: dict[str, Any]) -> int:
    """Of an event of the topic `line`, as queries show it."""
    return int(message["keys"][0].removeprefix("e"))


def _all_of_line(client: httpx2.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(client, "/api/v1/messages", topic="line", limit=COUNT + 1)["value"]
    return found


def _events(client: httpx2.Client, topic: str, group: str, count: int) -> list[str]:
    """The ids of the first events of a group, each acknowledged."""
    found: list[str] = []
    while len(found) < count:
        received = receive(client, topic, group)
        assert received, found
        settle(client, "acknowledge", topic, received, group)
        found += ids(received)
    assert receive(client, topic, group) == []
    return sorted(found)


@pytest.mark.parametrize("start", ["earliest", "moment"])
def test_a_group_consumes_cold_messages(cold: Cold, client: httpx2.Client, start: str) -> None:
    cold.put_group(f"late-{start}", start=_rfc3339(cold.moment) if start == "moment" else start)
    expected = LATER if start == "moment" else ALL
    assert _events(client, "line", f"late-{start}", len(expected)) == sorted(f"e{n}" for n in expected)


def test_a_group_that_is_set_back(cold: Cold, client: httpx2.Client) -> None:
    cold.put_group("back", start="latest")
    assert receive(client, "line", "back") == []
    body = {"topic": "line", "to": _rfc3339(cold.moment)}
    assert client.post("/api/v1/groups/back:reset", json=body).status_code == 200
    assert _events(client, "line", "back", len(LATER)) == sorted(f"e{n}" for n in LATER)


def test_pulls_read_cold_messages(client: httpx2.Client) -> None:
    found: list[dict[str, Any]] = []
    filtered: list[dict[str, Any]] = []
    for each in get(client, "/api/v1/topics/line")["offsets"]:
        path, offset = f"/api/v1/topics/line/queues/{each['queueId']}/messages", 0
        filtered += get(client, path, offset=0, limit=COUNT, filterKind="SUB_TOPIC", filter="+/s2")["value"]
        while offset < each["maxOffset"]:
            page = get(client, path, offset=offset, limit=7)
            assert (page["minOffset"], page["maxOffset"]) == (0, each["maxOffset"])
            found += page["value"]
            offset = page["nextOffset"]
    assert sorted(number_of(base64.b64decode(one["body"])) for one in found) == ALL
    assert sorted(map(_number, filtered)) == ALL[2::3]


def test_a_stream_of_events_goes_on_where_it_was(client: httpx2.Client) -> None:
    with source(client, "line", start="earliest") as live:
        first, place = live.take(8), live.last_id
    with source(client, "line", headers={"last-event-id": place}) as live:
        rest = live.take(COUNT - 8)
    assert sorted(first + rest) == sorted(f"e{number}" for number in ALL)


def test_queries_find_cold_messages(cold: Cold, client: httpx2.Client) -> None:
    query, pages = "/api/v1/messages", []
    found: dict[str, Any] = {"next": ""}
    while found["next"] is not None:
        found = get(client, query, topic="line", limit=6, **({"cursor": found["next"]} if found["next"] else {}))
        pages += found["value"]
    assert sorted(map(_number, pages)) == ALL
    [seven] = get(client, query, topic="line", key="e7")["value"]
    assert _number(seven) == 7
    assert get(client, query, topic="line", key="nobody")["value"] == []
    since = get(client, query, topic="line", from_=_rfc3339(cold.moment), limit=COUNT)["value"]
    assert sorted(map(_number, since)) == LATER
    before = get(client, query, topic="line", to=_rfc3339(cold.moment), limit=COUNT)["value"]
    assert sorted(map(_number, before)) == ALL[: COUNT // 2]
    one = get(client, f"{query}/{seven['id']}")
    assert number_of(base64.b64decode(one["body"])) == 7 and one["queueOffset"] == seven["queueOffset"]
    is_problem(client.get(f"{query}/{'0' * 32}"), 404)


def test_what_became_of_a_message(cold: Cold, client: httpx2.Client) -> None:
    cold.put_group("half", start="earliest")
    [value, *_] = receive(client, "line", "half", 1)
    settle(client, "acknowledge", "line", [value], "half")
    for number, state in ((int(value["event"]["id"][1:]), "consumed"), (19, "notYet")):
        [one] = get(client, "/api/v1/messages", topic="line", key=f"e{number}")["value"]
        told = get(client, f"/api/v1/messages/{one['id']}/consumers")["value"]
        states = {each["group"]: each["state"] for each in told}
        assert states.get("half", "notYet") == state  # a broker that the group has not asked does not know it
    [letter, *_] = get(client, "/api/v1/messages", topic="bad")["value"]
    told = get(client, f"/api/v1/messages/{letter['id']}/consumers")["value"]
    assert [(each["group"], each["state"]) for each in told] == [("careless", "deadLettered")]


def test_dead_letters(cold: Cold, client: httpx2.Client) -> None:
    path = "/api/v1/groups/careless/dead-letters"
    letters = get(client, path)["value"]
    assert sorted(_number(letter) for letter in letters) == list(range(LETTERS))
    assert {(letter["reason"], letter["origin"]["topic"]) for letter in letters} == {("rejected", "bad")}
    first = get(client, path, limit=3)
    assert get(client, path, from_offset=first["next"])["value"] == letters[3:]
    exported = [json.loads(line) for line in client.get(f"{path}:export").text.splitlines()]
    assert sorted(number_of(base64.b64decode(one["body"])) for one in exported) == list(range(LETTERS))
    outcome = client.post(f"{path}:resend", json={"all": True}).json()
    assert outcome == {"resentOffsets": [letter["offset"] for letter in letters], "failedOffsets": []}
    assert _events(client, "bad", "careless", LETTERS) == [f"e{number}" for number in range(LETTERS)]


def test_a_webhook_that_begins_in_the_past(cold: Cold, client: httpx2.Client) -> None:
    receiver = WebhookReceiver()
    try:
        for start, expected in (("earliest", ALL), (_rfc3339(cold.moment), LATER)):
            name = f"past{len(expected)}"
            body = {
                "source": "line",
                "sink": receiver.hook(name),
                "protocol": "HTTP",
                "config": {"handshake": "off", "start": start},
            }
            made = client.post("/subscriptions", json=body)
            assert made.status_code == 201, made.text
            requests = receiver.wait(name, len(expected))
            assert sorted(number_of(body_of(each)) for each in requests) == expected
            assert client.delete(f"/subscriptions/{made.json()['id']}").status_code == 204
    finally:
        receiver.stop()


def _hops(client: httpx2.Client, message_id: str) -> list[str]:
    return [hop["kind"] for hop in get(client, f"/api/v1/messages/{message_id}/trace")["value"]]


def test_the_way_of_a_message(cold: Cold, client: httpx2.Client) -> None:
    assert cold.rows()[TRACE] > 0
    [traced] = get(client, "/api/v1/messages", topic="traced")["value"]
    assert _hops(client, traced["id"]) == ["stored", "delivered", "acknowledged"]


# -- RocketMQ ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["simple", "push"])
def test_consumers(cold: Cold, kind: str) -> None:
    cold.put_group(f"rocket-{kind}", start="earliest")
    with RocketMqPeer(cold.server.address("grpc")) as peer:
        if kind == "simple":
            found = peer.take(peer.simple(f"rocket-{kind}", "line"), COUNT)
        else:
            handle = peer.push(f"rocket-{kind}", "line")
            found = wait_until(
                lambda: peer.pushed[handle] if len(peer.pushed[handle]) >= COUNT else [], lambda: str(peer.pushed)
            )
            wait_until(lambda: len(peer.done[handle]) >= COUNT, "all are acknowledged")
    assert sorted(number_of(message.body) for message in found) == ALL


def test_offsets(cold: Cold, client: httpx2.Client) -> None:
    group = resource(f"offsets-{time.monotonic_ns()}")
    later = 0
    with GrpcClient(cold.server.address("grpc")) as grpc_client:
        for each in get(client, "/api/v1/topics/line")["offsets"]:
            queue, end = v2.MessageQueue(topic=resource("line"), id=each["queueId"]), each["maxOffset"]
            question = v2.QueryOffsetRequest(message_queue=queue, query_offset_policy=v2.BEGINNING)
            assert grpc_client.call("QueryOffset", question).offset == 0
            question.query_offset_policy = v2.TIMESTAMP
            question.timestamp.FromSeconds(cold.moment)
            since = grpc_client.call("QueryOffset", question).offset
            later += end - since
            if not end:
                continue
            pull = v2.PullMessageRequest(group=group, message_queue=queue, offset=since, batch_size=COUNT)
            answers = list(grpc_client.stream("PullMessage", pull))
            bodies = [answer.message.body for answer in answers if answer.HasField("message")]
            assert len(bodies) == end - since and {number_of(body) for body in bodies} <= set(LATER)
            assert answers[-1].next_offset == end
            update = v2.UpdateOffsetRequest(group=group, message_queue=queue, offset=end - 1)
            assert grpc_client.call("UpdateOffset", update).status.code == v2.OK
            told = grpc_client.call("GetOffset", v2.GetOffsetRequest(group=group, message_queue=queue))
            assert told.offset == end - 1
        assert later == len(LATER)
