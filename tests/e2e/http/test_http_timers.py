"""Events that wait for their time: published, listed, recalled, given another time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from entrepot.domain.recall_handle import RecallHandle
from tests.e2e.http.steps import event, get, ids, is_problem, publish, receive, settle
from tests.support.cases import cases
from tests.support.waiting import wait_until

TIMERS = "/api/v1/timers"


def at(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def delayed(number: int, seconds: float) -> dict[str, object]:
    return event(number, deliverytime=at(seconds))


@pytest.mark.everywhere
def test_an_event_comes_in_its_time_and_not_before(server, client, topic):
    sent = delayed(1, 30)
    publish(client, topic, sent, event(2))
    other = receive(client, topic)
    assert ids(other) == ["e2"]
    settle(client, "acknowledge", topic, other)
    [waiting] = get(client, TIMERS, topic=topic)["value"]
    assert (waiting["keys"], waiting["topic"], "queueOffset" in waiting) == (["e1"], topic, False)
    assert datetime.fromisoformat(waiting["deliverAt"]) == datetime.fromisoformat(str(sent["deliverytime"]))
    server.clock.advance(30)
    received = wait_until(lambda: receive(client, topic), "the event")
    now = datetime.fromtimestamp(server.clock.now_ms() / 1000, UTC)
    assert now >= datetime.fromisoformat(waiting["deliverAt"])
    assert received[0]["event"] == sent  # the attribute is as it was written
    assert get(client, TIMERS, topic=topic)["value"] == []


def test_a_time_that_is_over_is_no_wait(client, topic):
    publish(client, topic, event(1, deliverytime="1969-07-20T20:17:40Z"), event(2, deliverytime=at(-1)))
    assert sorted(ids(receive(client, topic))) == ["e1", "e2"]


@pytest.mark.everywhere
def test_the_next_one_is_first_and_pages_go_on(client, topic):
    publish(client, topic, delayed(1, 300), delayed(2, 100), delayed(3, 200))
    publish(client, f"{topic}-other", delayed(4, 50))
    first = get(client, TIMERS, topic=topic, limit=2)
    assert [one["keys"] for one in first["value"]] == [["e2"], ["e3"]]
    second = get(client, TIMERS, topic=topic, limit=2, cursor=first["next"])
    assert ([one["keys"] for one in second["value"]], second["next"]) == ([["e1"]], None)
    everywhere = get(client, TIMERS, limit=1000)["value"]
    assert {one["topic"] for one in everywhere} >= {topic, f"{topic}-other"}


@pytest.mark.everywhere
def test_recall(client, topic):
    publish(client, topic, delayed(1, 100))
    [waiting] = get(client, TIMERS, topic=topic)["value"]
    assert client.delete(f"{TIMERS}/{waiting['handle']}").status_code == 204
    assert get(client, TIMERS, topic=topic)["value"] == []
    is_problem(client.delete(f"{TIMERS}/{waiting['handle']}"), 404)


@pytest.mark.everywhere
def test_a_timer_gets_another_time(client, topic):
    publish(client, topic, delayed(1, 100))
    [waiting] = get(client, TIMERS, topic=topic)["value"]
    later = at(3600)
    answer = client.put(f"{TIMERS}/{waiting['handle']}", json={"deliverAt": later})
    assert answer.status_code == 200, answer.text
    [renewed] = get(client, TIMERS, topic=topic)["value"]
    assert answer.json() == {"handle": renewed["handle"], "deliverAt": renewed["deliverAt"]}
    is_problem(client.put(f"{TIMERS}/{waiting['handle']}", json={"deliverAt": later}), 404)
    now = round(datetime.now(UTC).timestamp() * 1000)
    assert client.put(f"{TIMERS}/{renewed['handle']}", json={"deliverAt": now}).status_code == 200
    received = wait_until(lambda: receive(client, topic), "the event")
    told = datetime.fromisoformat(received[0]["event"]["deliverytime"])
    assert round(told.timestamp() * 1000) == now  # the new one


def test_timers_of_a_namespace(client, topic):
    namespace = f"ns-{topic}"
    client.put(f"/api/v1/namespaces/{namespace}")
    publish(client, topic, delayed(1, 100), delayed(2, 300), below=f"/namespaces/{namespace}")
    publish(client, topic, delayed(3, 200))
    path = f"/api/v1/namespaces/{namespace}/timers"
    first = get(client, path, limit=1)
    assert [one["keys"] for one in first["value"]] == [["e1"]]
    second = get(client, path, limit=1, cursor=first["next"])
    assert ([one["keys"] for one in second["value"]], second["next"]) == ([["e2"]], None)
    assert (second["value"][0]["namespace"], second["value"][0]["topic"]) == (namespace, topic)
    assert ["e3"] in [one["keys"] for one in get(client, TIMERS, limit=1000)["value"]]
    assert client.delete(f"{TIMERS}/{second['value'][0]['handle']}").status_code == 204


@cases("value", ["tomorrow", "1800000000000", "2026-01-01T00:00:00", "", "2026-13-01T00:00:00Z"])
def test_a_time_that_is_none_is_refused_by_name(client, topic, value):
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", "ce-deliverytime": value}
    answer = client.post(f"/topics/{topic}:publish", headers=headers)
    is_problem(answer, 400, "deliverytime")
    assert answer.json()["attribute"] == "deliverytime"
    assert client.get(f"/api/v1/topics/{topic}").status_code == 404


def test_a_time_too_far_ahead_is_refused(client, topic):
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
    for value in ("9999-12-31T23:59:59.999Z", at(401 * 24 * 3600)):
        answer = client.post(f"/topics/{topic}:publish", headers={**headers, "ce-deliverytime": value})
        is_problem(answer, 400)
        assert answer.json()["code"] == "ILLEGAL_DELIVERY_TIME"


@cases(
    "query, status",
    [
        ("?limit=0", 400),
        ("?limit=1001", 400),
        ("?limit=x", 400),
        ("?topic=", 400),
        ("?topic=unknown", 404),
        ("?topic=a%2Fb", 400),
        ("?cursor=", 400),
        ("?cursor=1", 400),
        ("?cursor=1-2-3", 400),
        ("?cursor=-1-2", 400),
        ("?cursor=9223372036854775808-0", 400),
        ("?cursor=" + "1" * 600, 400),
    ],
)
def test_bad_listings(client, query, status):
    is_problem(client.get(TIMERS + query), status)


GOOD = RecallHandle("known", b"\x01" * 16, 1_800_000_000_000).encode()


@cases("handle", ["x", "AAAA", GOOD + "%3D", "%ff", "a%2Fb", "A" * 5000])
def test_bad_handles(client, handle):
    is_problem(client.delete(f"{TIMERS}/{handle}"), 400)
    is_problem(client.put(f"{TIMERS}/{handle}", json={"deliverAt": 1}), 400)


BAD_TIMES = [
    {},
    {"deliverAt": None},
    {"deliverAt": "soon"},
    {"deliverAt": ""},
    {"deliverAt": -1},
    {"deliverAt": True},
    {"deliverAt": 1.5},
    {"deliverAt": 2**63},
    {"deliverAt": "9" * 5000},
    {"deliverAt": 1, "more": 2},
    {"deliverAt": 253_402_300_799_999},
    {"deliverAt": "9999-12-31T00:00:00Z"},
]


def test_bad_times(client, topic):
    publish(client, topic, delayed(1, 100))
    [waiting] = get(client, TIMERS, topic=topic)["value"]
    for body in BAD_TIMES:
        is_problem(client.put(f"{TIMERS}/{waiting['handle']}", json=body), 400)
    is_problem(client.put(f"{TIMERS}/{GOOD}", json={"deliverAt": 1_800_000_000_000}), 404)
