"""Pages of topics and groups: by name, kind, type and figure, by rights, and while a broker is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from entrepot.domain.topic import Topic
from entrepot.gateway.operations.row import paging
from entrepot.gateway.settings import SecuritySettings, Settings
from tests.e2e.http.steps import event, get, is_problem, metrics_now, publish, receive, settle
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer, serving
from tests.support.waiting import wait_until

TOPICS, GROUPS = "/api/v1/topics", "/api/v1/groups"


def names(page: dict[str, Any]) -> list[str]:
    return [row["name"] for row in page["value"]]


def walked(client: httpx2.Client, path: str, **query: object) -> list[str]:
    """The names of all pages."""
    found, after = [], None
    while True:
        page = get(client, path, **query, **({} if after is None else {"after": after}))
        assert len(page["value"]) <= int(str(query.get("limit", 100)))
        found += names(page)
        after = page["next"]
        if after is None:
            return found


@pytest.fixture
def family(client: httpx2.Client, topic: str) -> list[str]:
    """Five topics whose names begin alike; the middle one has messages."""
    made = [f"{topic}-{letter}" for letter in "abcde"]
    for name in made:
        assert client.put(f"{TOPICS}/{name}", json={"queues": 2}).status_code == 201
    publish(client, made[2], *(event(n) for n in range(3)))
    publish(client, made[4], event(9))
    return made


def test_pages_go_through_all_names_once(client, family, topic):
    assert walked(client, TOPICS, prefix=topic, limit=2) == family
    assert walked(client, TOPICS, prefix=topic, limit=2, sort="-name") == family[::-1]
    assert walked(client, TOPICS, contains=f"{topic}-C".upper()[1:], limit=1) == [family[2]]
    page = get(client, TOPICS, prefix=topic, limit=2)
    assert page["total"] == 5
    assert page["answered"] == {"asked": 1, "answered": 1, "missing": []}
    assert get(client, TOPICS, prefix=topic, after=family[4])["value"] == []


def test_a_row_has_sums_as_text(client, family, topic):
    rows = {row["name"]: row for row in get(client, TOPICS, prefix=topic)["value"]}
    row = rows[family[2]]
    assert (row["messages"], row["written"], row["isAvailable"], row["isComplete"]) == ("3", "3", True, True)
    assert (row["kind"], row["queues"], row["type"], "offsets" in row) == ("normal", 2, "NORMAL", False)
    assert rows[family[0]]["messages"] == "0"


def test_figures_sort_with_a_cursor(client, family, topic):
    descending = walked(client, TOPICS, prefix=topic, sort="-messages", limit=2)
    assert descending == [family[2], family[4], family[0], family[1], family[3]]
    assert walked(client, TOPICS, prefix=topic, sort="messages", limit=3) == [
        *(family[at] for at in (0, 1, 3)),
        family[4],
        family[2],
    ]
    is_problem(client.get(TOPICS, params={"sort": "colour"}), 400, "sort:", "messages")
    is_problem(client.get(TOPICS, params={"sort": "messages", "after": "x"}), 400, "after:")


def test_kinds_and_types_are_apart(client, topic):
    client.put(f"{TOPICS}/{topic}", json={"type": "PRIORITY"})
    client.put(f"{GROUPS}/{topic}", json={})
    publish(client, topic, event(1))
    settle(client, "reject", topic, receive(client, topic, topic), topic)
    assert walked(client, TOPICS, contains=topic, kind="normal") == [topic]
    assert walked(client, TOPICS, contains=topic, kind="deadLetter") == [f"%DLQ%{topic}"]
    assert walked(client, TOPICS, contains=topic, kind="deadLetter,normal") == [f"%DLQ%{topic}", topic]
    assert walked(client, TOPICS, contains=topic, type="PRIORITY") == [topic]
    assert walked(client, TOPICS, contains=topic, type="NORMAL", kind="normal") == []
    is_problem(client.get(TOPICS, params={"kind": "odd"}), 400, "kind:", "deadLetter")


def test_groups_have_their_lag(client, topic):
    for name in ("a", "b"):
        client.put(f"{GROUPS}/{topic}{name}", json={})
    client.put(f"{TOPICS}/{topic}", json={"queues": 1})
    publish(client, topic, *(event(n) for n in range(3)))
    settle(client, "acknowledge", topic, receive(client, topic, f"{topic}b", 2), f"{topic}b")
    [idle, reader] = get(client, GROUPS, prefix=topic)["value"]
    assert (idle["name"], idle["lag"], idle["topics"], idle["topicCount"]) == (f"{topic}a", "0", [], 0)
    assert (reader["lag"], reader["inFlight"], reader["topics"], reader["kind"]) == ("1", "0", [topic], "normal")
    assert walked(client, GROUPS, prefix=topic, sort="-lag", limit=1) == [f"{topic}b", f"{topic}a"]


def test_the_whole_list_has_all_queues(client, topic):
    client.put(f"{TOPICS}/{topic}", json={})
    answer = get(client, TOPICS)
    assert (answer["next"], answer["answered"]["missing"]) == (None, [])
    assert all("offsets" in one and "kind" not in one for one in answer["value"])


@pytest.mark.parametrize("path", [TOPICS, GROUPS])
def test_the_whole_list_comes_in_pieces(client, topic, monkeypatch, path):
    for number in range(5):
        client.put(f"{path}/{topic}-{number}", json={})
    monkeypatch.setattr(paging, "PIECE", 2)
    found, query = [], {}
    while query.get("after", "") is not None:
        piece = get(client, path, **query)
        assert len(piece["value"]) <= 2
        found += names(piece)
        query = {"after": piece["next"]}
    assert [name for name in found if name.startswith(topic)] == [f"{topic}-{number}" for number in range(5)]
    assert found == sorted(set(found))


def test_a_page_has_what_its_reader_may_get(tmp_path):
    security = SecuritySettings(**CHEAP_HASHES, initial_admin="root", initial_admin_password="root")
    with serving("memory", tmp_path, Settings(security=security)) as server:
        with http_client(server.url, auth=("root", "root")) as root:
            for name in ("red", "reed", "rust", "secret"):
                root.put(f"{TOPICS}/{name}", json={})
            root.put("/api/v1/users/eye", json={"password": "pw"})
            statements = [
                {"effect": "ALLOW", "actions": ["GET"], "resources": ["Topic:r*"]},
                {"effect": "DENY", "actions": ["GET"], "resources": ["Topic:rust"]},
            ]
            assert root.put("/api/v1/acls/eye", json={"statements": statements}).status_code == 201
            assert walked(root, TOPICS, limit=1) == ["red", "reed", "rust", "secret"]
        with http_client(server.url, auth=("eye", "pw")) as eye:
            denied = len(server.parts.security.audit.newest(1000))
            assert walked(eye, TOPICS, limit=1) == ["red", "reed"]
            assert get(eye, TOPICS, limit=10)["total"] == 2
            assert get(eye, "/api/v1/namespaces/none/topics", limit=10)["value"] == []
            assert len(server.parts.security.audit.newest(1000)) == denied
            is_problem(eye.get(TOPICS), 403)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving("cluster", tmp_path_factory.mktemp("brokers")) as running:
        yield running


def test_a_broker_that_is_away_is_named(cluster: HttpServer):
    with http_client(cluster.url) as client:
        for name, on in (("both", None), ("one", {"broker-1": 2}), ("zero", {"broker-0": 2})):
            assert client.put(f"{TOPICS}/{name}", json={"queues": 2, "placement": on}).status_code == 201
        client.put(f"{GROUPS}/workers", json={})
        publish(client, "both", *(event(n) for n in range(8)))
        publish(client, "zero", event(1))
        wait_until(lambda: get(client, TOPICS, limit=9)["answered"]["answered"] == 2, "both brokers")
        assert {row["name"]: row["messages"] for row in get(client, TOPICS, limit=9)["value"]} == {
            "both": "8",
            "one": "0",
            "zero": "1",
        }
        cluster.run(cluster.brokers[1].stop())
        try:
            page = get(client, TOPICS, limit=9)
            assert (page["answered"]["asked"], page["answered"]["answered"]) == (2, 1)
            [missing] = page["answered"]["missing"]
            assert missing["name"] == "broker-1" and missing["reason"]
            rows = {row["name"]: row for row in page["value"]}
            assert (rows["zero"]["isComplete"], rows["zero"]["messages"]) == (True, "1")
            assert (rows["one"]["isAvailable"], rows["one"]["messages"], rows["one"]["written"]) == (False, None, None)
            assert (rows["both"]["isAvailable"], rows["both"]["isComplete"]) == (True, False)
            assert 0 <= int(rows["both"]["messages"]) <= 8
            assert walked(client, TOPICS, sort="-messages", limit=2)[-1] == "one", "what is unknown comes last"
            [group] = get(client, GROUPS, limit=9)["value"]
            assert (group["isAvailable"], group["isComplete"]) == (True, False)
            whole = get(client, TOPICS)
            assert [each["name"] for each in whole["answered"]["missing"]] == ["broker-1"], "the reason may be another"
            assert [each["name"] for each in whole["value"]] == ["both", "zero"], "of one nobody tells"
            assert "entrepot_statuses_incomplete 1.0" in metrics_now(client).splitlines()
        finally:
            cluster.run(cluster.brokers[1].serve())
        wait_until(lambda: get(client, TOPICS, limit=9)["answered"]["answered"] == 2, "the broker's return")
        assert "entrepot_statuses_incomplete 0.0" in metrics_now(client).splitlines()


def test_a_silent_broker_holds_nobody_up(cluster: HttpServer):
    with http_client(cluster.url) as client:
        client.put(f"{TOPICS}/silent", json={})
        wait_until(lambda: get(client, TOPICS, limit=9)["answered"]["answered"] == 2, "both brokers")
        cluster.call(lambda: cluster.brokers[1].hang())
        try:
            page = get(client, TOPICS, prefix="silent")
        finally:
            cluster.call(lambda: cluster.brokers[1].hang(False))
        assert page["answered"]["missing"] == [{"name": "broker-1", "reason": "no answer within 1.5 s"}]
        assert (page["value"][0]["isAvailable"], page["value"][0]["isComplete"]) == (True, False)


def test_a_page_of_ten_thousand_asks_for_the_figures_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with serving("memory", tmp_path) as server, http_client(server.url) as client:
        store = server.store
        server.run(store.topology.put_topics([Topic(f"many{n:05d}", queues=1) for n in range(10_001)]))
        asked: list[int] = []
        statuses = type(store.topology).topic_statuses
        monkeypatch.setattr(
            type(store.topology),
            "topic_statuses",
            lambda topology, names: asked.append(len(names)) or statuses(topology, names),
        )
        for query in ({}, {"contains": "9"}, {"sort": "-name"}):
            page = get(client, TOPICS, limit=100, **query)
            assert len(page["value"]) == 100 and page["next"] is not None
        assert asked == [100, 100, 100]
        assert get(client, TOPICS, sort="-messages", prefix="many0", limit=1)["value"][0]["name"] == "many00000"
        is_problem(client.get(TOPICS, params={"sort": "messages"}), 400, "10001", "at most 10000")
