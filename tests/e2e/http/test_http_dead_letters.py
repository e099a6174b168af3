"""Dead letters: told, tried again, exported."""

from __future__ import annotations

import base64
import json

import httpx2
import pytest
from structlog.testing import capture_logs

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.cli.app import run
from tests.e2e.http.steps import event, get, ids, is_problem, publish, receive, settle
from tests.support.cases import cases

GROUPS = "/api/v1/groups"


@pytest.fixture
def group(client, topic):
    """A group with four dead letters."""
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    publish(client, topic, *(event(number, data={"n": number}) for number in range(4)))
    settle(client, "reject", topic, receive(client, topic, topic), topic)
    return topic


@pytest.mark.everywhere
def test_why_when_and_where_from(client, topic, group):
    answer = get(client, f"{GROUPS}/{group}/dead-letters")
    assert answer["next"] is None
    assert [one["keys"] for one in answer["value"]] == [["e0"], ["e1"], ["e2"], ["e3"]]
    second = answer["value"][1]
    assert (second["offset"], second["reason"], second["attempts"]) == (1, "rejected", 1)
    assert second["time"].endswith("Z") and second["topic"] == f"%DLQ%{group}"
    assert second["origin"] == {
        "topic": topic,
        "namespace": "default",
        "queueId": 0,
        "queueOffset": 1,
        "id": second["id"],
    }


def test_pages_of_dead_letters(client, group):
    first = get(client, f"{GROUPS}/{group}/dead-letters", limit=3)
    assert ([one["offset"] for one in first["value"]], first["next"]) == ([0, 1, 2], 3)
    second = get(client, f"{GROUPS}/{group}/dead-letters", from_offset=3)
    assert ([one["offset"] for one in second["value"]], second["next"]) == ([3], None)
    assert get(client, f"{GROUPS}/{group}/dead-letters", from_offset=2**63 - 1) == {"value": [], "next": None}


def test_a_group_without_dead_letters(client, topic):
    client.put(f"{GROUPS}/{topic}")
    assert get(client, f"{GROUPS}/{topic}/dead-letters") == {"value": [], "next": None}
    assert client.get(f"{GROUPS}/{topic}/dead-letters:export").content == b""
    answer = client.post(f"{GROUPS}/{topic}/dead-letters:resend", json={"all": True})
    assert answer.json() == {"resentOffsets": [], "failedOffsets": []}


@pytest.mark.everywhere
def test_some_are_tried_again(client, topic, group):
    answer = client.post(f"{GROUPS}/{group}/dead-letters:resend", json={"offsets": [2, 7, 0]})
    assert answer.status_code == 200, answer.text
    outcome = answer.json()
    assert outcome["resentOffsets"] == [2, 0]
    assert [(one["offset"], one["error"]["code"]) for one in outcome["failedOffsets"]] == [(7, "ILLEGAL_OFFSET")]
    assert sorted(ids(receive(client, topic, group))) == ["e0", "e2"]
    assert len(get(client, f"{GROUPS}/{group}/dead-letters")["value"]) == 4  # they stay


def test_all_are_tried_again(client, topic, group):
    outcome = client.post(f"{GROUPS}/{group}/dead-letters:resend", json={"all": True}).json()
    assert outcome == {"resentOffsets": [0, 1, 2, 3], "failedOffsets": []}
    assert sorted(ids(receive(client, topic, group))) == ["e0", "e1", "e2", "e3"]


@pytest.mark.everywhere
def test_the_export_is_one_line_each(client, group):
    answer = client.get(f"{GROUPS}/{group}/dead-letters:export")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [(one["offset"], json.loads(base64.b64decode(one["body"]))) for one in lines] == [
        (number, {"n": number}) for number in range(4)
    ]
    assert {one["reason"] for one in lines} == {"rejected"}
    later = client.get(f"{GROUPS}/{group}/dead-letters:export", params={"from_offset": 2}).text.splitlines()
    assert [json.loads(line)["offset"] for line in later] == [2, 3]


def test_a_long_export_comes_piece_by_piece(client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    for _ in range(5):
        publish(client, topic, *(event(number, data="x" * 10_000) for number in range(20)))
        settle(client, "reject", topic, receive(client, topic, topic), topic)
    with client.stream("GET", f"{GROUPS}/{topic}/dead-letters:export") as answer:
        assert "content-length" not in answer.headers
        assert [json.loads(line)["offset"] for line in answer.iter_lines()] == list(range(100))


def test_an_export_that_fails_on_the_way_is_not_taken_for_whole(server, client, group, monkeypatch, capfd):
    monkeypatch.setattr("entrepot.gateway.operations.nouns.dead_letters.EXPORT_BATCH", 2)
    read = server.store.messages.read

    async def failing(topic: str, queue_id: int, from_offset: int, max_messages: int) -> list:
        if from_offset >= 2:
            raise EntrepotError(Code.MESSAGE_CORRUPTED, "its checksum is wrong")
        return await read(topic, queue_id, from_offset, max_messages)

    monkeypatch.setattr(server.store.messages, "read", failing)
    with capture_logs():  # else the whole stack is drawn, for seconds
        with pytest.raises(httpx2.RemoteProtocolError):
            client.get(f"{GROUPS}/{group}/dead-letters:export")
        assert run(["group", "export", group, "--server", server.url]) == 1
    assert "broke off" in capfd.readouterr().err


def test_dead_letters_of_a_group_that_is_gone(client, group):
    assert client.delete(f"{GROUPS}/{group}").status_code == 204
    assert len(get(client, f"{GROUPS}/{group}/dead-letters")["value"]) == 4
    assert len(client.get(f"{GROUPS}/{group}/dead-letters:export").text.splitlines()) == 4
    is_problem(client.post(f"{GROUPS}/{group}/dead-letters:resend", json={"all": True}), 404)


@cases(
    "path, status",
    [
        ("{group}/dead-letters?limit=0", 400),
        ("{group}/dead-letters?limit=1001", 400),
        ("{group}/dead-letters?limit=many", 400),
        ("{group}/dead-letters?from_offset=-1", 400),
        ("{group}/dead-letters?from_offset=x", 400),
        ("{group}/dead-letters?from_offset=9223372036854775808", 400),
        ("{group}/dead-letters:export?from_offset=-1", 400),
        ("nobody/dead-letters", 404),
        ("nobody/dead-letters:export", 404),
        ("a%2Fb/dead-letters", 400),
    ],
)
def test_bad_questions(client, topic, path, status):
    client.put(f"{GROUPS}/{topic}")
    is_problem(client.get(f"{GROUPS}/{path}".replace("{group}", topic)), status)


@cases(
    "body",
    [
        {},
        [],
        {"offsets": []},
        {"offsets": None},
        {"offsets": 1},
        {"offsets": ["1"]},
        {"offsets": [-1]},
        {"offsets": [1.5]},
        {"offsets": [2**63]},
        {"offsets": [0] * 10_001},
        {"all": False},
        {"all": 1},
        {"all": "true"},
        {"all": True, "offsets": [0]},
        {"all": True, "more": 1},
    ],
)
def test_bad_resends(client, topic, body):
    client.put(f"{GROUPS}/{topic}")
    is_problem(client.post(f"{GROUPS}/{topic}/dead-letters:resend", json=body), 400)
    is_problem(client.post(f"{GROUPS}/{topic}-none/dead-letters:resend", json={"offsets": [0]}), 404)
