"""Events as they come: server-sent events, and the WebSocket of a consumer."""

from __future__ import annotations

import base64
import json
import socket
import threading

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from entrepot.gateway.operations.nouns import topic_stream
from entrepot.gateway.settings import SecuritySettings, Settings
from tests.e2e.http.steps import event, ids, is_problem, publish, receive
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.http.client import http_client, http_request
from tests.support.http.event_streams import Consumer, consumer, source
from tests.support.http.server import HttpServer, serving
from tests.support.waiting import wait_until


def test_events_come_as_they_are_published(client: httpx2.Client, topic: str) -> None:
    publish(client, topic, event(0))
    with source(client, topic) as live:
        publish(client, topic, event(1, data={"celsius": 1}), event(2, data="two\nlines", datacontenttype="text/plain"))
        found = {one["id"]: one for one in (live.next(), live.next())}
    assert found["e1"]["data"] == {"celsius": 1}
    assert found["e2"]["data"] == "two\nlines"


@pytest.mark.everywhere
def test_a_stream_begins_where_it_is_told_and_goes_on_where_it_was(client: httpx2.Client, topic: str) -> None:
    client.put(f"/api/v1/topics/{topic}", json={"queues": 3})
    publish(client, topic, *[event(n, partitionkey=str(n)) for n in range(60)])
    with source(client, topic, start="earliest") as live:
        first = live.take(25)
        place = live.last_id
    with source(client, topic, headers={"last-event-id": place}) as live:
        rest = live.take(35)
    assert sorted(first + rest) == sorted(f"e{n}" for n in range(60))
    with source(client, topic, cursor=place) as live:
        assert live.take(35) == rest


FILTERED = [event(1, subject="a/1", level=1), event(2, subject="b/1", level=9), event(3, subject="a/2", level=9)]


def test_only_what_a_query_wants(client: httpx2.Client, topic: str) -> None:
    publish(client, topic, *FILTERED)
    with source(client, topic, start="earliest", filters='[{"prefix": {"subject": "a/"}}]', cesql="level > 5") as live:
        assert live.take(1) == ["e3"]
    with source(client, topic, start="earliest", cesql="level > 5") as live:
        assert sorted(live.take(2)) == ["e2", "e3"]
    for query in ({"filters": "[{"}, {"filters": '[{"exact": {}}]'}, {"cesql": "level >"}):
        is_problem(client.get(f"/topics/{topic}/events", params=query), 400)


def test_receiving_what_a_query_wants(client: httpx2.Client, topic: str) -> None:
    publish(client, topic, *FILTERED)
    path = f"/topics/{topic}/eventsubscriptions/g:receive"
    query: dict = {"maxEvents": 10, "maxWaitTime": 1, "cesql": "subject LIKE 'a/%' AND level = 9"}
    assert ids(client.post(path, params=query).json()["value"]) == ["e3"]
    assert receive(client, topic) == []
    is_problem(client.post(path, params={"cesql": "1 +"}), 400, "cesql")


def test_positions_by_offset_and_time(client: httpx2.Client, topic: str) -> None:
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    publish(client, topic, event(1), event(2), event(3))
    with source(client, topic, start="1") as live:
        assert live.take(2) == ["e2", "e3"]
    with source(client, topic, start="2000-01-01T00:00:00Z") as live:
        assert live.take(3) == ["e1", "e2", "e3"]
    is_problem(client.get(f"/topics/{topic}/events", params={"start": "yesterday"}), 400, "start")
    is_problem(client.get(f"/topics/{topic}/events", params={"cursor": "x"}), 400, "cursor")


def test_names_of_events(client: httpx2.Client, topic: str) -> None:
    publish(client, topic, event(1))
    with source(client, topic, start="earliest", named="true") as live:
        assert live.next()["name"] == "reading"


def test_a_slow_reader_costs_a_bounded_buffer_and_loses_nothing(
    server: HttpServer, client: httpx2.Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_stream, "MAX_WAITING_MESSAGES", 10)
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    count = 3000
    with source(client, topic) as live:
        for start in range(0, count, 500):
            publish(client, topic, *[event(n, data="x" * 1000) for n in range(start, start + 500)])
        assert live.take(count) == [f"e{n}" for n in range(count)]


def test_a_stream_ends_with_its_topic(client: httpx2.Client, topic: str) -> None:
    publish(client, topic, event(1))
    with source(client, topic, start="earliest") as live:
        assert live.take(1) == ["e1"]
        assert client.delete(f"/api/v1/topics/{topic}").status_code == 204
        with pytest.raises(AssertionError, match="ended"):
            live.next()


def test_more_streams_than_the_limit_are_refused(tmp_path) -> None:
    settings = Settings(http={"max_streams": 1})
    with (
        serving("memory", tmp_path, settings) as server,
        http_client(server.url) as client,
    ):
        publish(client, "t", event(1))
        with source(client, "t"):
            is_problem(client.get("/topics/t/events"), 429)
        wait_until(
            lambda: client.stream("GET", "/topics/t/events").__enter__().status_code == 200,
            "the end of the first stream",
        )


# -- the WebSocket -----------------------------------------------------------------------------------------------------


@pytest.mark.everywhere
def test_a_consumer_gets_events_and_settles_them(server: HttpServer, client: httpx2.Client, topic: str) -> None:
    publish(client, topic, event(1, data={"n": 1}), event(2), event(3))
    with consumer(server, topic) as it:
        assert it.connection.subprotocol == "cloudevents.json"
        found = sorted((it.next() for _ in range(3)), key=lambda one: one["id"])
        assert found[0]["data"] == {"n": 1} and found[0]["deliverycount"] == 1
        assert len(it.settle("acknowledge", found[0])["succeededLockTokens"]) == 1
        assert len(it.settle("reject", found[1])["succeededLockTokens"]) == 1
        it.settle("release", found[2])
        again = it.next()
        assert (again["id"], again["deliverycount"]) == ("e3", 2)
        assert it.settle("renew", again)["failedLockTokens"] == []
        assert it.settle("acknowledge", again)["failedLockTokens"] == []
        assert it.settle("acknowledge", again)["failedLockTokens"][0]["error"]["code"] == "INVALID_RECEIPT_HANDLE"
    assert receive(client, topic) == []
    assert ids(receive(client, "%25DLQ%25g", "inspector"))[-1:] == ["e2"]


def test_credit_bounds_what_is_unsettled(server: HttpServer, client: httpx2.Client, topic: str) -> None:
    publish(client, topic, *[event(n) for n in range(10)])
    with consumer(server, topic, credit=2) as it:
        held = [it.next(), it.next()]
        with pytest.raises(TimeoutError):
            it.next(timeout=0.3)
        assert len(receive(client, topic, count=3)) == 3
        it.settle("acknowledge", held[0])
        held.append(it.next())
        it.say("credit", credit=4)
        held += [it.next(), it.next()]
        with pytest.raises(TimeoutError):
            it.next(timeout=0.3)
    assert len({one["id"] for one in held}) == 5


def test_a_consumer_gets_what_it_wants(server: HttpServer, client: httpx2.Client, topic: str) -> None:
    publish(client, topic, *FILTERED)
    with consumer(server, topic, cesql="level = 1") as it:
        one = it.next()
        assert one["id"] == "e1"
        it.settle("acknowledge", one)


def test_what_is_held_goes_back_at_once_when_the_connection_ends(
    server: HttpServer, client: httpx2.Client, topic: str
) -> None:
    publish(client, topic, event(1), event(2))
    with consumer(server, topic) as it:
        assert {it.next()["id"], it.next()["id"]} == {"e1", "e2"}
    found: list[str] = []

    def both_are_there() -> bool:
        found.extend(ids(receive(client, topic)))
        return sorted(found) == ["e1", "e2"]

    wait_until(both_are_there, "both events")
    with consumer(server, topic, "other") as it:
        it.next()
        it.connection.socket.shutdown(socket.SHUT_RDWR)  # as a cable that is pulled, which the kernel still tells of


def test_two_consumers_share_a_group(server: HttpServer, client: httpx2.Client, topic: str) -> None:
    client.put(f"/api/v1/topics/{topic}", json={})
    got: list[str] = []

    def consume(it: Consumer) -> None:
        try:
            while True:
                one = it.next()
                if one["type"] == "reading":
                    it.say("acknowledge", lockTokens=[one["locktoken"]])
                    got.append(one["id"])  # behind it: at the last one the connection is closed
        except (ConnectionClosed, TimeoutError, EOFError):
            return

    with consumer(server, topic, credit=5) as one, consumer(server, topic, credit=5) as two:
        threads = [threading.Thread(target=consume, args=(each,)) for each in (one, two)]
        for thread in threads:
            thread.start()
        publish(client, topic, *[event(n) for n in range(200)])
        wait_until(lambda: len(got) >= 200, "all events")
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(f"e{n}" for n in range(200))


@pytest.mark.parametrize(
    "text",
    ["nonsense", "{}", '{"specversion": "1.0", "id": "1", "source": "/", "type": "other"}',
     '{"specversion": "1.0", "id": "1", "source": "/", "type": "dev.entrepot.acknowledge", "data": {}}',
     '{"specversion": "1.0", "id": "1", "source": "/", "type": "dev.entrepot.credit", "data": {"credit": -1}}',
     "[" * 5000],
)  # fmt: skip
def test_what_is_not_understood_is_answered_with_a_problem(server: HttpServer, topic: str, text: str) -> None:
    with consumer(server, topic) as it:
        it.connection.send(text)
        answer = it.next()
        assert answer["type"] == "dev.entrepot.problem" and answer["data"]["status"] == 400
        it.say("credit", credit=1)  # it goes on
        publish_one = http_request(
            "POST",
            f"{server.url}/topics/{topic}:publish",
            headers={"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/", "ce-type": "t"},
        )
        assert publish_one.status_code == 200 and it.next()["id"] == "1"


def test_a_binary_frame_ends_it(server: HttpServer, topic: str) -> None:
    with consumer(server, topic) as it:
        it.connection.send(b"\x00")
        with pytest.raises(ConnectionClosed) as closed:
            it.next()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1003


def test_handshakes_that_are_refused_say_why(server: HttpServer, topic: str) -> None:
    url = f"ws://127.0.0.1:{server.port}/topics/{topic}/eventsubscriptions/g:stream"
    for path, options, status in (
        (url, {}, 400),
        (url.replace(":stream", ":nothing"), {"subprotocols": ["cloudevents.json"]}, 404),
        (url + "?credit=x", {"subprotocols": ["cloudevents.json"]}, 400),
        (url.replace("/g:", "/no group:"), {"subprotocols": ["cloudevents.json"]}, 400),
        (url, {"subprotocols": ["cloudevents.json"], "origin": "http://evil.example"}, 403),
    ):
        with pytest.raises(InvalidStatus) as refused, connect(path.replace(" ", "%20"), proxy=None, **options):
            pass
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body)["status"] == status


def test_rights_of_streams_and_tokens_in_the_query(tmp_path) -> None:
    cheap = SecuritySettings(**CHEAP_HASHES, initial_admin="root", initial_admin_password="root")
    with serving("memory", tmp_path, Settings(security=cheap)) as server:
        with pytest.raises(InvalidStatus) as refused, consumer(server, "t"):
            pass
        assert refused.value.response.status_code == 401
        answer = http_request("GET", f"{server.url}/topics/t/events?access_token=nonsense")
        is_problem(answer, 401)
        twice = http_request("GET", f"{server.url}/topics/t/events?access_token=a&access_token=b")
        is_problem(twice, 401, "more than one")


def test_streams_of_a_user_who_is_deleted_tell_nothing_more(tmp_path) -> None:
    cheap = SecuritySettings(**CHEAP_HASHES, initial_admin="root", initial_admin_password="root")
    basic = {"authorization": "Basic " + base64.b64encode(b"bob:pw").decode()}
    all_of_it = [{"effect": "ALLOW", "actions": ["ALL"], "resources": ["Topic:*", "Group:*"]}]
    with serving("memory", tmp_path, Settings(security=cheap)) as server:  # noqa: SIM117
        with http_client(server.url, auth=("root", "root")) as root:
            root.put("/api/v1/topics/t", json={}).raise_for_status()
            root.put("/api/v1/users/bob", json={"password": "pw"}).raise_for_status()
            root.put("/api/v1/acls/bob", json={"statements": all_of_it}).raise_for_status()
            bob = http_client(server.url, headers=basic)
            with bob, source(bob, "t") as live, consumer(server, "t", headers=basic) as it:
                publish(root, "t", event(1))
                assert live.next()["id"] == "e1"
                first = it.next()
                assert first["id"] == "e1"
                root.delete("/api/v1/users/bob").raise_for_status()
                publish(root, "t", event(2))
                with pytest.raises(AssertionError, match="has ended"):
                    live.next()
                assert _last_words(it, first["locktoken"]) <= {"dev.entrepot.problem"}
            found = {one["id"] for _ in range(2) for one in _received(root)}
            assert found == {"e1", "e2"}, "nothing was settled, and all was given back"


def _last_words(it: Consumer, token: str) -> set[str]:
    """What a consumer hears that acknowledges something, up to the end of its connection."""
    heard: set[str] = set()
    try:
        it.say("acknowledge", lockTokens=[token])
        while True:
            heard.add(it.next()["type"])
    except ConnectionClosed:
        return heard


def _received(client: httpx2.Client) -> list[dict]:
    answer = client.post("/topics/t/eventsubscriptions/g:receive?maxEvents=10&maxWaitTime=1")
    return [one["event"] for one in answer.json()["value"]]


def test_who_renews_what_another_holds_does_not_hold_it(server: HttpServer, client: httpx2.Client, topic: str) -> None:
    publish(client, topic, event(1))
    answer = client.post(f"/topics/{topic}/eventsubscriptions/g:receive").json()
    token = answer["value"][0]["brokerProperties"]["lockToken"]
    with consumer(server, topic) as it:
        it.say("renew", lockTokens=[token])
        assert it.next()["data"]["succeededLockTokens"] == [token]
    settled = client.post(f"/topics/{topic}/eventsubscriptions/g:acknowledge", json={"lockTokens": [token]})
    assert settled.json()["succeededLockTokens"] == [token]


def test_pages_of_other_origins(tmp_path) -> None:
    settings = Settings(http={"allowed_origins": ["https://app.example"]})
    with (
        serving("memory", tmp_path, settings) as server,
        http_client(server.url) as client,
    ):
        preflight = client.options(
            "/topics/t:publish",
            headers={"origin": "https://app.example", "access-control-request-method": "POST"},
        )
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        publish(client, "t", event(1))
        answer = client.post(
            "/topics/t/eventsubscriptions/g:receive?maxWaitTime=0", headers={"origin": "https://app.example"}
        )
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        other = client.get("/healthz", headers={"origin": "https://other.example"})
        assert other.status_code == 403
        assert "access-control-allow-origin" not in other.headers
