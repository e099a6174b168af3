"""Finding stored messages, and what became of them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from entrepot.domain.message import Message
from tests.e2e.http.steps import event, get, is_problem, publish, receive, settle
from tests.support.cases import cases

MESSAGES = "/api/v1/messages"


def send(server, topic: str, body: bytes = b"x", **fields: object) -> None:
    message = Message(topic=topic, body=body, sub_topic=topic, **fields)  # type: ignore[arg-type]
    assert server.run(server.parts.sender.send_and_wait([message])) is None


def test_the_id_of_an_event_is_a_key(client, topic):
    publish(client, topic, event(1), event(2, subject="line1", partitionkey="p", data={"n": 2}), event(1))
    found = get(client, MESSAGES, topic=topic)
    assert [one["keys"] for one in found["value"]] == [["e1"], ["e2"], ["e1"]]
    assert found["next"] is None
    [second] = get(client, MESSAGES, topic=topic, key="e2")["value"]
    assert (second["topic"], second["namespace"], second["subTopic"]) == (topic, "default", f"{topic}/line1")
    assert (second["messageGroup"], second["tag"], second["size"]) == ("p", "", len(b'{"n": 2}'))
    assert second["queueOffset"] >= 0 and second["commitLogOffset"] >= 0
    assert abs(datetime.now(UTC) - datetime.fromisoformat(second["storeTime"])) < timedelta(minutes=1)
    assert second["bornTime"] <= second["storeTime"]
    assert get(client, MESSAGES, topic=topic, key="e")["value"] == []


def test_pages_go_on_with_their_cursor(client, topic):
    publish(client, topic, *(event(number) for number in range(7)))
    keys, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = get(client, MESSAGES, topic=topic, limit=3, **({} if cursor is None else {"cursor": cursor}))
        keys += [one["keys"][0] for one in page["value"]]
        cursor, pages = page["next"], pages + 1
    assert keys == [f"e{number}" for number in reversed(range(7))]
    assert pages == 3


def test_times_bound_the_store_time(client, topic):
    publish(client, topic, event(1))
    [one] = get(client, MESSAGES, topic=topic)["value"]
    stored = datetime.fromisoformat(one["storeTime"])
    stored_ms = round(stored.timestamp() * 1000)
    later = (stored + timedelta(milliseconds=1)).isoformat()
    assert get(client, MESSAGES, topic=topic, from_=one["storeTime"], to=later)["value"] == [one]
    assert get(client, MESSAGES, topic=topic, from_=stored_ms, to=stored_ms + 1)["value"] == [one]
    assert get(client, MESSAGES, topic=topic, to=stored_ms)["value"] == []
    assert get(client, MESSAGES, topic=topic, from_=stored_ms + 1)["value"] == []
    in_a_zone = stored.astimezone().isoformat() if stored.astimezone().utcoffset() else one["storeTime"]
    assert get(client, MESSAGES, topic=topic, from_=in_a_zone)["value"] == [one]
    with_a_bare_plus = (stored - timedelta(hours=1)).isoformat()
    assert client.get(f"{MESSAGES}?topic={topic}&from={with_a_bare_plus}").json()["value"] == [one]


def test_one_message_with_everything(server, client, topic):
    text = "grüß"
    send(
        server,
        topic,
        text.encode(),
        keys=("k1", "k2"),
        tag="a",
        properties=(("unit", "C"), ("unit", "K"), ("raw", b"\xff")),
        system={"correlation_id": b"\x00\x01", "content_type": "text/plain"},
    )
    [listed] = get(client, MESSAGES, topic=topic, key="k2")["value"]
    assert listed["id"] == listed["id"].upper() and len(listed["id"]) == 32
    one = get(client, f"{MESSAGES}/{listed['id'].lower()}")
    assert one.items() >= listed.items()
    assert (base64.b64decode(one["body"]), one["text"]) == (text.encode(), text)
    assert one["properties"] == [
        {"name": "unit", "value": "C"},
        {"name": "unit", "value": "K"},
        {"name": "raw", "base64": "/w=="},
    ]
    assert {"name": "correlation_id", "base64": "AAE="} in one["systemProperties"]
    assert {"name": "content_type", "value": "text/plain"} in one["systemProperties"]
    place = {name: one[name] for name in ("topic", "namespace", "queueId", "queueOffset")}
    assert (one["places"], one["others"], one["tag"]) == ([place], 0, "a")


def test_bytes_have_no_text(server, client, topic):
    send(server, topic, b"\xff\x00")
    [listed] = get(client, MESSAGES, topic=topic)["value"]
    one = get(client, f"{MESSAGES}/{listed['id']}")
    assert (one["body"], one["text"]) == ("/wA=", None)


def test_an_id_that_a_producer_chose(server, client, topic):
    own = f"order/ä-{topic}"
    for number in range(3):
        send(server, topic, b"%d" % number, message_id=own.encode())
    one = get(client, f"{MESSAGES}/{quote(own, safe='')}")
    assert (one["text"], one["others"], one["id"]) == ("2", 2, own.encode().hex().upper())
    assert get(client, f"{MESSAGES}/{one['id']}")["others"] == 2
    send(server, topic, b"a", message_id=b"abcd" + topic.encode().hex().encode())
    assert get(client, f"{MESSAGES}/abcd{topic.encode().hex()}")["text"] == "a"  # hex text, and no id as such


def test_what_became_of_a_message(client, topic):
    groups = {name: f"{name}-{topic}" for name in ("consumed", "flying", "dead", "waiting", "picky")}
    picky = {"filter": {"kind": "TAG", "text": "never"}}
    assert client.put(f"/api/v1/groups/{groups['picky']}", json=picky).status_code == 201
    publish(client, topic, event(1))
    receive(client, topic, groups["picky"])
    settle(client, "acknowledge", topic, receive(client, topic, groups["consumed"]), groups["consumed"])
    receive(client, topic, groups["flying"])
    settle(client, "release", topic, receive(client, topic, groups["waiting"]), groups["waiting"])
    settle(client, "reject", topic, receive(client, topic, groups["dead"]), groups["dead"])
    [listed] = get(client, MESSAGES, topic=topic)["value"]
    consumers = get(client, f"{MESSAGES}/{listed['id']}/consumers")["value"]
    settled = next(one for one in consumers if one["group"] == groups["consumed"])
    assert settled["attempts"] in (0, 1), "how often it was delivered may be forgotten by then"
    assert {one["group"]: (one["state"], one["attempts"]) for one in consumers} == {
        groups["consumed"]: ("consumed", settled["attempts"]),
        groups["flying"]: ("inFlight", 1),
        groups["dead"]: ("deadLettered", 1),
        groups["waiting"]: ("notYet", 1),
        groups["picky"]: ("filtered", 0),
    }
    shown = get(client, f"{MESSAGES}/{listed['id']}")  # its dead letter has the same id
    assert (shown["topic"], shown["others"]) == (topic, 1)


@cases(
    "query, status, word",
    [
        ("", 400, "topic"),
        ("?topic=", 400, "topic"),
        ("?topic=unknown-topic", 404, "unknown-topic"),
        ("?topic=a%2Fb", 400, "a/b"),
        ("?topic={topic}&key=", 400, "key"),
        ("?topic={topic}&limit=0", 400, "limit"),
        ("?topic={topic}&limit=1001", 400, "limit"),
        ("?topic={topic}&limit=x", 400, "limit"),
        ("?topic={topic}&limit=1e3", 400, "limit"),
        ("?topic={topic}&limit=" + "9" * 5000, 400, "limit"),
        ("?topic={topic}&from=yesterday", 400, "from"),
        ("?topic={topic}&from=-1", 400, "from"),
        ("?topic={topic}&from=1.5", 400, "from"),
        ("?topic={topic}&from=", 400, "from"),
        ("?topic={topic}&to=2026-02-30T00:00:00Z", 400, "to"),
        ("?topic={topic}&to=253402300800000", 400, "to"),
        ("?topic={topic}&to=" + "9" * 6000, 400, "to"),
        ("?topic={topic}&cursor=", 400, "cursor"),
        ("?topic={topic}&cursor=x", 400, "cursor"),
        ("?topic={topic}&cursor=" + "1" * 513, 400, "cursor"),
        ("/00", 404, "00"),
        ("/zz", 404, "zz"),
        ("/%ff", 404, ""),
        ("/00/consumers", 404, "00"),
        ("/" + "ab" * 2000, 404, ""),
    ],
)
def test_bad_questions(client, topic, query, status, word):
    client.put(f"/api/v1/topics/{topic}")
    is_problem(client.get(MESSAGES + query.replace("{topic}", topic)), status, word)


# the way of a message


def test_the_way_of_a_message(client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1, "trace": 1})
    publish(client, topic, event(1), event(2))
    received = receive(client, topic)
    settle(client, "acknowledge", topic, received[:1])
    settle(client, "reject", topic, received[1:])
    second, first = get(client, MESSAGES, topic=topic)["value"]
    hops = get(client, f"{MESSAGES}/{first['id']}/trace")["value"]
    assert [(hop["kind"], hop["group"], hop["attempt"]) for hop in hops] == [
        ("stored", None, None),
        ("delivered", "g", 1),
        ("acknowledged", "g", 1),
    ]
    assert {(hop["topic"], hop["namespace"], hop["queueId"], hop["queueOffset"]) for hop in hops} == {
        (topic, "default", 0, first["queueOffset"])
    }
    assert hops[0]["time"] <= hops[1]["time"] <= hops[2]["time"]
    assert hops[0]["detail"] is None
    last = get(client, f"{MESSAGES}/{second['id'].lower()}/trace")["value"][-1]
    assert (last["kind"], last["detail"]) == ("deadLettered", "rejected")


def test_a_message_that_is_not_traced(client, topic):
    publish(client, topic, event(1))
    [one] = get(client, MESSAGES, topic=topic)["value"]
    assert get(client, f"{MESSAGES}/{one['id']}/trace") == {"value": []}
    is_problem(client.get(f"{MESSAGES}/{'0' * 32}/trace"), 404, "0" * 32)


def test_traces_by_an_id_that_a_producer_chose(client, server, topic):
    client.put(f"/api/v1/topics/{topic}", json={"trace": 1})
    send(server, topic, message_id=f"id-{topic}".encode())
    [hop] = get(client, f"{MESSAGES}/id-{topic}/trace")["value"]
    assert hop["kind"] == "stored"


@cases("share", [-0.1, 1.5, "1", None, True])
def test_what_is_no_share(client, topic, share):
    is_problem(client.put(f"/api/v1/topics/{topic}", json={"trace": share}), 400, "trace")


def test_clients_read_traces_and_do_not_write_them(client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"trace": 1})
    publish(client, topic, event(1))
    [one] = get(client, MESSAGES, topic=topic)["value"]
    get(client, f"{MESSAGES}/{one['id']}/trace")
    trace_topic = quote("%TRACE%", safe="")
    answer = client.post(
        f"/topics/{trace_topic}:publish", json=event(1), headers={"content-type": "application/cloudevents+json"}
    )
    is_problem(answer, 403, "%TRACE%")
    if any(found["name"] == "%TRACE%" for found in get(client, "/api/v1/topics")["value"]):
        told = [told["event"]["data"] for told in receive(client, trace_topic, topic)]
        assert one["id"] in [trace["message_id"] for trace in told]
