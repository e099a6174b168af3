"""The viewer: messages by offset, time, key and id, searched and downloaded, and never consumed."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from entrepot.domain.message import Message, SystemProperty
from entrepot.gateway.settings import SecuritySettings, Settings
from tests.e2e.http.steps import event, get, is_problem, publish, receive, settle
from tests.support.cases import cases
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer, serving

TOPICS = "/api/v1/topics"
SECRET = '{"pan": "4111", "who": {"name": "eve", "pan": "4222"}, "items": [{"pan": 1}, 2]}'


def send(server: HttpServer, topic: str, body: bytes = b"x", **fields: Any) -> None:
    message = Message(topic=topic, body=body, sub_topic=topic, **fields)
    assert server.run(server.parts.sender.send_and_wait([message])) is None


def view(client: httpx2.Client, topic: str, **query: object) -> dict[str, Any]:
    return get(client, f"{TOPICS}/{topic}/messages", **query)


def offsets(answer: dict[str, Any]) -> list[str]:
    return [row["offset"] for row in answer["value"]]


def body(row: dict[str, Any]) -> bytes:
    return base64.b64decode(row["body"])


@pytest.fixture
def queue(server: HttpServer, client: httpx2.Client, topic: str) -> str:
    """A topic of one queue with ten numbered messages."""
    assert client.put(f"{TOPICS}/{topic}", json={"queues": 1}).status_code == 201
    for number in range(10):
        send(
            server,
            topic,
            f"body {number}".encode(),
            keys=(f"k{number}",),
            tag="even" if number % 2 == 0 else "odd",
            properties=(("Colour", "RED" if number < 3 else "blue"), ("n", str(number))),
        )
    return topic


def test_both_directions_go_through_all(client, queue):
    for direction, expected in (("forward", range(10)), ("backward", range(9, -1, -1))):
        found, place = [], {}
        while True:
            answer = view(client, queue, queue=0, direction=direction, limit=3, **place)
            assert (answer["minOffset"], answer["maxOffset"], answer["lookedAt"]) == ("0", "10", len(answer["value"]))
            found += offsets(answer)
            if answer["next"] is None:
                break
            place = {"offset": answer["next"]}
        assert found == [str(n) for n in expected]
    assert offsets(view(client, queue, queue=0, direction="forward", offset=99)) == []
    assert offsets(view(client, queue, queue=0, offset=0)) == []


def test_a_row_tells_the_message(client, queue):
    [row] = view(client, queue, queue=0, offset=5, direction="forward", limit=1, bodyBytes=4)["value"]
    assert (row["offset"], row["queueId"], row["size"], row["keys"], row["tag"]) == ("5", 0, 6, ["k5"], "odd")
    assert (body(row), row["isCut"], row["isHidden"], row["isMasked"]) == (b"body", True, False, False)
    assert row["properties"] == [{"name": "Colour", "value": "blue"}, {"name": "n", "value": "5"}]
    assert row["topic"] == queue and row["storeTime"] and row["id"]
    whole = get(client, f"{TOPICS}/{queue}/messages/0/5")
    assert (body(whole), whole["isCut"], whole["id"]) == (b"body 5", False, row["id"])
    assert get(client, f"{TOPICS}/{queue}/messages/0/5", bodyBytes=0)["body"] is None
    for place in ("0/10", "0/99"):
        is_problem(client.get(f"{TOPICS}/{queue}/messages/{place}"), 404, "offset")
    is_problem(client.get(f"{TOPICS}/{queue}/messages/x/1"), 400, "queue")
    is_problem(client.get(f"{TOPICS}/{queue}/messages/9/1"), 404)


SEARCHES = (
    ({"filter": "even"}, "02468"),
    ({"filterKind": "SQL92", "filter": "n > 6"}, "789"),
    ({"text": "red"}, "012"),
    ({"text": "K7"}, "7"),
    ({"bodyText": "BODY 4"}, "4"),
    ({"filter": "odd", "text": "red"}, "1"),
)


@cases("query, expected", SEARCHES)
def test_searches_find(client, queue, query, expected):
    answer = view(client, queue, queue=0, direction="forward", **query)
    assert "".join(offsets(answer)) == expected
    assert (answer["lookedAt"], answer["next"]) == (10, None)
    assert {row["offset"] for row in view(client, queue, **query)["value"]} == set(expected)


def test_a_search_ends_at_its_limit_and_goes_on(client, queue):
    found, place, rounds = [], {}, 0
    while place is not None:
        answer = view(client, queue, queue=0, direction="forward", bodyText="body 9", scan=4, **place)
        assert answer["lookedAt"] <= 4
        found += offsets(answer)
        place = None if answer["next"] is None else {"offset": answer["next"]}
        rounds += 1
    assert (found, rounds) == (["9"], 3)
    cursor, found = {}, []
    while cursor is not None:
        answer = view(client, queue, bodyText="body 0", scan=4, **cursor)
        assert answer["lookedAt"] <= 4
        found += offsets(answer)
        cursor = None if answer["next"] is None else {"cursor": answer["next"]}
    assert found == ["0"]


def test_by_key_id_and_time(client, queue):
    [row] = view(client, queue, key="k3")["value"]
    assert row["offset"] == "3"
    assert offsets(view(client, queue, id=row["id"])) == ["3"]
    assert offsets(view(client, queue, id="no such id")) == []
    before = view(client, queue, queue=0, to="2001-01-01T00:00:00Z")
    after = view(client, queue, queue=0, from_="2001-01-01T00:00:00Z", direction="forward", limit=2)
    assert (offsets(before), offsets(after)) == ([], ["0", "1"])
    assert offsets(view(client, queue, from_=row["storeTime"], limit=1)) == ["9"]


@cases(
    "query, words",
    (
        ({"offset": "1"}, "queue:"),
        ({"queue": 0, "key": "k"}, "leave queue out"),
        ({"queue": 0, "offset": "-1"}, "offset"),
        ({"bodyBytes": 1 << 20}, "bodyBytes"),
        ({"filterKind": "SQL92", "filter": "n >"}, ""),
        ({"scan": 0}, "scan"),
    ),
)
def test_what_cannot_be_asked_is_refused(client, queue, query, words):
    is_problem(client.get(f"{TOPICS}/{queue}/messages", params=query), 400, words)


def test_missing_topics_and_queues(client, queue):
    is_problem(client.get(f"{TOPICS}/none-{queue}/messages"), 404)
    is_problem(client.get(f"{TOPICS}/{queue}/messages", params={"queue": 7}), 404)


def test_looking_consumes_nothing(client, topic):
    publish(client, topic, *(event(n) for n in range(3)))
    client.put(f"/api/v1/groups/{topic}", json={})
    before = get(client, f"/api/v1/groups/{topic}")
    for query in ({}, {"queue": 0}, {"text": "e1"}, {"key": "e1"}):
        view(client, topic, **query)
    assert get(client, f"/api/v1/groups/{topic}") == before
    assert len(receive(client, topic, topic)) == 3


def test_a_body_is_a_file_that_nothing_runs(server, client, topic):
    page = b"<script>alert(1)</script>\x00\xff" * 10_000
    send(server, topic, page, system={SystemProperty.CONTENT_TYPE: "text/html"})
    [row] = view(client, topic, bodyBytes=64)["value"]
    assert (len(body(row)), row["isCut"], row["size"]) == (64, True, len(page))
    answer = client.get(f"{TOPICS}/{topic}/messages/{row['queueId']}/{row['offset']}/body")
    assert answer.content == page
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == f'attachment; filename="{topic}-{row["queueId"]}-0.bin"'
    assert answer.headers["cache-control"] == "no-store"


# -- rights and masks ------------------------------------------------------------------------------------------------

RULES = [
    {"topic": "cards*", "fields": ["pan"], "headers": ["Authorization", "token"]},
    {"topic": "deep", "fields": ["/a/1"]},
]
"""What only super users see."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    security = SecuritySettings(**CHEAP_HASHES, initial_admin="root", initial_admin_password="root")
    settings = Settings.model_validate({"security": security, "http": {"masked_fields": RULES}})
    with serving("memory", tmp_path_factory.mktemp("data"), settings) as running:
        with http_client(running.url, auth=("root", "root")) as root:
            for name, actions in (("eye", ["GET"]), ("reader", ["GET", "SUB", "PUB", "CREATE"])):
                root.put(f"/api/v1/users/{name}", json={"password": "pw"})
                resources = ["Topic:#", "Topic:*", "Group:*"]
                statements = [{"effect": "ALLOW", "actions": actions, "resources": resources}]
                answer = root.put(f"/api/v1/acls/{name}", json={"statements": statements})
                assert answer.status_code == 201, answer.text
            for topic in ("cards-eu", "deep", "open"):
                assert root.put(f"{TOPICS}/{topic}", json={"queues": 1}).status_code == 201
        headers = (("authorization", "Basic abc"), ("ce_token", "t"), ("colour", "red"))
        send(running, "cards-eu", SECRET.encode(), properties=headers, keys=("k",), tag="t")
        send(running, "cards-eu", b"pan=4111", properties=headers, system={SystemProperty.AMQP: b"raw"})
        send(running, "deep", b'{"a": [1, "secret", {"a": [0, "seen"]}]}')
        send(running, "open", SECRET.encode(), properties=headers)
        yield running


def as_user(server: HttpServer, name: str) -> httpx2.Client:
    return http_client(server.url, auth=(name, "root" if name == "root" else "pw"))


def contents_seen(server: HttpServer) -> list[Any]:
    return [entry for entry in server.parts.security.audit.newest(1000) if entry.event == "contents seen"]


def test_who_may_only_get_sees_no_contents(guarded):
    seen = len(contents_seen(guarded))
    with as_user(guarded, "eye") as eye:
        [row] = view(eye, "open")["value"]
        assert (row["size"], row["offset"], row["isHidden"]) == (len(SECRET), "0", True)
        hidden = ("body", "keys", "tag", "subTopic", "messageGroup", "properties", "systemProperties")
        assert [row[name] for name in hidden] == [None] * len(hidden)
        for query in ({"text": "red"}, {"bodyText": "4"}, {"filter": "t"}, {"key": "k"}):
            is_problem(eye.get(f"{TOPICS}/open/messages", params=query), 403)
        is_problem(eye.get(f"{TOPICS}/open/messages/0/0/body"), 403)
        assert get(eye, f"{TOPICS}/open/messages/0/0")["isHidden"] is True
    assert len(contents_seen(guarded)) == seen, "it saw no body"


def test_fields_and_headers_are_masked_for_all_but_super_users(guarded):
    with as_user(guarded, "reader") as reader, as_user(guarded, "root") as root:
        other, json = view(reader, "cards-eu")["value"]
        assert body(json) == b'{"pan":"***","who":{"name":"eve","pan":"***"},"items":[{"pan":"***"},2]}'
        assert json["properties"] == [
            {"name": "authorization", "value": "***"},
            {"name": "ce_token", "value": "***"},
            {"name": "colour", "value": "red"},
        ]
        assert (json["isMasked"], json["isHidden"], json["size"]) == (True, False, len(SECRET))
        assert (other["body"], other["isHidden"], other["isMasked"]) == (None, True, True)
        assert {"name": "amqp", "value": "***"} in other["systemProperties"]
        assert [body(row) for row in view(root, "cards-eu")["value"]] == [b"pan=4111", SECRET.encode()]
        assert body(view(reader, "deep")["value"][0]) == b'{"a":[1,"***",{"a":[0,"seen"]}]}'
        assert body(view(reader, "open")["value"][0]) == SECRET.encode()


def test_masked_contents_cannot_be_searched_for(guarded):
    with as_user(guarded, "reader") as reader, as_user(guarded, "root") as root:
        for query in (
            {"bodyText": "4111"},
            {"text": "basic"},
            {"filterKind": "SQL92", "filter": "authorization = 'Basic abc'"},
        ):
            assert view(reader, "cards-eu", **query)["value"] == []
            assert view(root, "cards-eu", **query)["value"] != []


def test_masks_hold_on_every_way_that_shows_contents(guarded):
    with as_user(guarded, "reader") as reader:
        [row] = view(reader, "cards-eu", key="k")["value"]
        places = f"{TOPICS}/cards-eu/messages"
        assert b"4111" not in reader.get(f"{places}/0/0/body").content
        is_problem(reader.get(f"{places}/0/1/body"), 403, "super users")
        pulled = reader.get(f"{TOPICS}/cards-eu/queues/0/messages?offset=0").json()["value"]
        assert [one["isMasked"] for one in pulled] == [True, True]
        assert "4111" not in str([base64.b64decode(one["body"] or "") for one in pulled])
        shown = get(reader, f"/api/v1/messages/{row['id']}")
        assert "4111" not in base64.b64decode(shown["body"]).decode() and "4111" not in shown["text"]


def test_masks_hold_for_retained_messages(guarded):
    def kept(name: str, body: bytes) -> None:
        message = Message("cards-kept", body, name, message_id=b"id", system={SystemProperty.RETAIN: "1"})
        guarded.run(guarded.parts.retained.keep_first([message], guarded.parts.sender))

    kept("cards-kept/json", SECRET.encode())
    kept("cards-kept/text", b"pan=4111")
    with as_user(guarded, "reader") as reader, as_user(guarded, "root") as root:
        before = len(contents_seen(guarded))
        assert b"4111" not in reader.get("/api/v1/retained/cards-kept%2Fjson").content
        is_problem(reader.get("/api/v1/retained/cards-kept%2Ftext"), 403, "super users")
        assert root.get("/api/v1/retained/cards-kept%2Ftext").content == b"pan=4111"
        assert len(contents_seen(guarded)) == before + 2


def test_masks_follow_a_message_to_the_dead_letters(guarded):
    with as_user(guarded, "root") as root, as_user(guarded, "reader") as reader:
        settle(root, "reject", "cards-eu", receive(root, "cards-eu", "g"))
        lines = reader.get("/api/v1/groups/g/dead-letters:export").text
        assert len(lines.splitlines()) == 2 and "4111" not in lines and base64.b64encode(b"4111").decode() not in lines
        rows = view(reader, "%25DLQ%25g")["value"]
        assert {row["isMasked"] for row in rows} == {True} and not any(b"4111" in body(r) for r in rows if r["body"])


def test_each_look_at_bodies_is_audited_once(guarded):
    with as_user(guarded, "reader") as reader:
        before = len(contents_seen(guarded))
        view(reader, "open", bodyBytes=0)
        assert len(contents_seen(guarded)) == before
        view(reader, "cards-eu")
        reader.get(f"{TOPICS}/open/messages/0/0/body")
        download, look = contents_seen(guarded)[:2]
        assert len(contents_seen(guarded)) == before + 2
        assert (look.subject, look.resource) == ("reader", "Topic:cards-eu")
        assert look.detail == "queue 0, offsets 0 to 1: 1 body", "the other one was hidden"
        assert (download.resource, download.detail) == ("Topic:open", "queue 0, offset 0: download")
    with as_user(guarded, "root") as root:
        looks = get(root, "/api/v1/audit", kind="looks")["value"]
        assert looks and all((one["isLook"], one["event"]) == (True, "contents seen") for one in looks)
        for kind in ("changes", "refusals"):
            assert not any(one["isLook"] for one in get(root, "/api/v1/audit", kind=kind)["value"])
