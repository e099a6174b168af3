"""Consumers with whole queues: they share them out, pull, and commit."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.e2e.http.steps import event, get, is_problem, publish, receive
from tests.support.cases import cases
from tests.support.http.client import http_client
from tests.support.http.group_member import GroupMember
from tests.support.waiting import PATIENCE_SECONDS, wait_until

QUEUES = 4


@pytest.fixture
def consumer(client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"queues": QUEUES})
    return lambda name: GroupMember(client, topic, name)


def members(client: httpx2.Client, topic: str) -> dict:
    return get(client, f"/api/v1/groups/g/topics/{topic}/members")


def queues_by_member(client: httpx2.Client, topic: str) -> dict[str, list[int]]:
    return {one["member"]: one["queues"] for one in members(client, topic)["value"]}


@pytest.mark.everywhere
def test_members_share_the_queues_as_they_come_and_go(client, topic, consumer):
    a, b, c = consumer("a"), consumer("b"), consumer("c")
    assert a.heartbeat() == [0, 1, 2, 3]
    assert a.assignment == {
        "generation": 1,
        "strategy": "AVERAGED",
        "queues": [{"queueId": number, "committedOffset": 0, "maxOffset": 0} for number in range(QUEUES)],
        "members": ["a"],
        "leaseSeconds": 60,
    }
    assert (b.heartbeat(), a.heartbeat()) == ([2, 3], [0, 1])
    assert (c.heartbeat(), b.heartbeat(), a.heartbeat()) == ([3], [2], [0, 1])
    assert b.assignment["members"] == ["a", "b", "c"]
    a.leave()
    a.leave()  # twice is no mistake
    assert (b.heartbeat(), c.heartbeat()) == ([0, 1], [2, 3])
    shown = members(client, topic)
    assert (shown["generation"], shown["strategy"]) == (4, "AVERAGED")
    assert queues_by_member(client, topic) == {"b": [0, 1], "c": [2, 3]}
    assert shown["value"][0]["leaseSeconds"] == 60 and shown["value"][0]["expiresAt"].endswith("Z")


def test_a_member_that_is_silent_loses_its_queues(server, client, topic, consumer):
    silent, other = consumer("silent"), consumer("other")
    other.heartbeat(lease_seconds=3600)
    silent.heartbeat()
    assert queues_by_member(client, topic) == {"other": [0, 1], "silent": [2, 3]}
    server.clock.advance(60)
    assert queues_by_member(client, topic) == {"other": [0, 1, 2, 3]}
    is_problem(silent.commit(2, 0), 409, "not a member")
    assert silent.heartbeat() == [2, 3], "it comes back"
    assert silent.assignment["generation"] == 4


@pytest.mark.parametrize(("strategy", "queues"), [("AVERAGED", [0, 1]), ("CIRCULAR", [0, 2])])
def test_strategies(client, topic, consumer, strategy, queues):
    a, b = consumer("a"), consumer("b")
    assert client.post(a.path, json={"strategy": strategy}).status_code == 200
    b.heartbeat()
    assert (a.heartbeat(), a.assignment["strategy"]) == (queues, strategy)
    is_problem(client.post(b.path, json={"strategy": "CONSISTENT_HASH"}), 409, strategy)


def test_every_message_is_pulled_once_while_members_come_and_go(client, topic, consumer):
    total = 300
    for first in range(0, total, 50):
        publish(client, topic, *(event(number) for number in range(first, first + 50)))
    rng, done = random.Random(7), Counter()
    consumers = [consumer(name) for name in "abc"]
    for _ in range(2000):
        one = rng.choice(consumers)
        deed = rng.random()
        if not one.assignment or deed < 0.25:
            one.heartbeat()
        elif deed < 0.35:
            one.leave()
            one.offsets = {}
        else:
            one.work(done)  # with what it knows, which may be stale
        if len(done) == total:
            break
    assert done == Counter(f"e{number}" for number in range(total))
    progress = get(client, "/api/v1/groups/g")["progress"]
    assert sum(one["committedOffset"] for one in progress if one["topic"] == topic) == total


def test_every_message_is_pulled_once_by_members_at_work_at_once(server, client, topic, consumer):
    total, done, lock = 200, Counter(), threading.Lock()
    publish(client, topic, *(event(number) for number in range(total)))
    over = threading.Event()

    def run(name: str, seed: int) -> None:
        rng = random.Random(seed)
        with http_client(server.url) as own:
            one = GroupMember(own, topic, name)
            while not over.is_set():
                one.heartbeat()
                mine: Counter[str] = Counter()
                one.work(mine)
                with lock:
                    done.update(mine)
                    if len(done) == total:
                        over.set()
                if rng.random() < 0.2:
                    one.leave()

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(run, name, seed) for seed, name in enumerate("abc")]
        try:
            wait_until(over.is_set, lambda: f"all messages, there are {len(done)}")
        finally:
            over.set()
        for one in running:
            one.result()
    assert done == Counter(f"e{number}" for number in range(total))


@pytest.mark.everywhere
def test_a_stale_commit_is_refused(client, topic, consumer):
    publish(client, topic, *(event(number) for number in range(8)))
    a, b = consumer("a"), consumer("b")
    a.heartbeat()
    b.heartbeat()
    is_problem(a.commit(0, 1), 409, "generation 1")
    a.heartbeat()
    is_problem(a.commit(3, 1), 409, "queue 3")
    is_problem(a.commit(0, 100), 400, "offset 100")
    assert a.commit(0, 1).status_code == 200
    receive(client, topic, "g", 1)
    [held] = [one["queueId"] for one in get(client, "/api/v1/groups/g")["progress"] if one["inFlight"]]
    holder = a if held in a.offsets else b
    is_problem(holder.commit(held, 2), 409, "receive")


def test_a_long_poll_wakes_when_the_queues_are_shared_out_anew(server, client, topic, consumer):
    a, b = consumer("a"), consumer("b")
    a.heartbeat()
    waiters = server.parts.memberships._waiters
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(a.heartbeat, generation=a.assignment["generation"], waitTime=60)
        wait_until(lambda: waiters._count, "the long poll")
        b.heartbeat()
        assert poll.result(PATIENCE_SECONDS) == [0, 1]
        b.heartbeat(lease_seconds=1)  # which ends while nobody but a looks
        poll = pool.submit(a.heartbeat, generation=a.assignment["generation"], waitTime=60)
        assert poll.result(PATIENCE_SECONDS) == [0, 1, 2, 3]


def test_a_member_that_hung_up_is_not_kept(server, client, topic, consumer):
    gone = consumer("gone")
    gone.heartbeat()
    brief = httpx2.Timeout(PATIENCE_SECONDS, read=0.5)
    with pytest.raises(httpx2.ReadTimeout):
        client.post(gone.path, json={"leaseSeconds": 60}, params={"generation": 1, "waitTime": 60}, timeout=brief)
    wait_until(lambda: server.parts.memberships._waiters._count == 0, "the end of the long poll")
    server.clock.advance(60)
    assert queues_by_member(client, topic) == {}
    assert members(client, topic)["strategy"] is None


def test_members_pull_a_queue(client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    publish(client, topic, *(event(number, subject="ab"[number % 2], data=number) for number in range(5)))
    path = f"/api/v1/topics/{topic}/queues/0/messages"
    pulled = get(client, path, offset=1, limit=2)
    assert [message["keys"] for message in pulled["value"]] == [["e1"], ["e2"]]
    assert [message["text"] for message in pulled["value"]] == ["1", "2"]
    assert (pulled["nextOffset"], pulled["minOffset"], pulled["maxOffset"]) == (3, 0, 5)
    pulled = get(client, path, offset=0, filterKind="SUB_TOPIC", filter=f"{topic}/b")
    assert [message["keys"] for message in pulled["value"]] == [["e1"], ["e3"]]
    assert pulled["nextOffset"] == 5
    assert get(client, path, offset=5)["value"] == []
    client.put(f"/api/v1/topics/{topic}", json={"permission": "WRITE"})
    is_problem(client.get(path, params={"offset": 0}), 403)


def test_in_a_namespace(client, topic):
    below = f"/api/v1/namespaces/{topic}"
    client.put(below)
    client.put(f"{below}/topics/t", json={"queues": 2})
    publish(client, "t", event(), below=f"/namespaces/{topic}")
    joined = client.post(f"{below}/groups/g/topics/t/members/10.0.0.7%404711%2F1").json()
    assert joined["members"] == ["10.0.0.7@4711/1"]
    [full] = [one["queueId"] for one in joined["queues"] if one["maxOffset"]]
    assert get(client, f"{below}/topics/t/queues/{full}/messages", offset=0)["value"][0]["namespace"] == topic
    body = {"member": "10.0.0.7@4711/1", "generation": 1, "offsets": [{"queueId": full, "offset": 1}]}
    assert client.post(f"{below}/groups/g/topics/t/offsets", json=body).status_code == 200
    assert get(client, f"{below}/groups/g/topics/t/members")["value"][0]["queues"] == [0, 1]
    client.delete(f"{below}/groups/g")
    is_problem(client.get(f"{below}/groups/g/topics/t/members"), 404)
    client.put(f"{below}/groups/g")
    assert get(client, f"{below}/groups/g/topics/t/members")["value"] == [], "a new group has no old members"


GOOD: dict[str, Any] = {"member": "a", "generation": 1, "offsets": [{"queueId": 0, "offset": 0}]}


@cases(
    "path, body, status",
    [
        ("members/a", {"leaseSeconds": 0.5}, 400),
        ("members/a", {"leaseSeconds": 3601}, 400),
        ("members/a", {"leaseSeconds": "30"}, 400),
        ("members/a", {"leaseSeconds": True}, 400),
        ("members/a", {"leaseSeconds": None}, 400),
        ("members/a", {"strategy": "RANDOM"}, 400),
        ("members/a", {"more": 1}, 400),
        ("members/a", [], 400),
        (f"members/{'m' * 129}", {}, 400),
        ("members/a%0A", {}, 400),
        ("members/a?waitTime=-1", {}, 400),
        ("members/a?waitTime=121", {}, 400),
        ("members/a?waitTime=nan", {}, 400),
        ("members/a?generation=x", {}, 400),
        ("members/a?generation=-1", {}, 400),
        ("members/a?generation=9223372036854775808", {}, 400),
        ("offsets", {}, 400),
        ("offsets", {**GOOD, "member": ""}, 400),
        ("offsets", {**GOOD, "generation": "1"}, 400),
        ("offsets", {**GOOD, "offsets": []}, 400),
        ("offsets", {**GOOD, "offsets": [{"queueId": 0}]}, 400),
        ("offsets", {**GOOD, "offsets": [{"queueId": 0, "offset": -1}]}, 400),
        ("offsets", {**GOOD, "offsets": [{"queueId": 0, "offset": 2**63}]}, 400),
        ("offsets", {**GOOD, "offsets": GOOD["offsets"] * 2}, 400),
        ("offsets", {**GOOD, "offsets": [{"queueId": n, "offset": 0} for n in range(1025)]}, 400),
        ("offsets", {**GOOD, "generation": 2}, 409),
    ],
)
def test_bad_input(client, topic, consumer, path, body, status):
    consumer("a").heartbeat()
    is_problem(client.post(f"/api/v1/groups/g/topics/{topic}/{path}", json=body), status)


@cases(
    "query, status",
    [
        ("0/messages", 400),
        ("0/messages?offset=x", 400),
        ("0/messages?offset=-1", 400),
        ("0/messages?offset=1", 400),
        ("0/messages?offset=0&limit=0", 400),
        ("0/messages?offset=0&limit=1001", 400),
        ("0/messages?offset=0&filterKind=SQL92", 400),
        ("0/messages?offset=0&filterKind=SQL92&filter=price%20%3E", 400),
        ("0/messages?offset=0&filterKind=NONE&filter=a", 400),
        ("x/messages?offset=0", 400),
        ("-1/messages?offset=0", 400),
        ("4/messages?offset=0", 404),
        ("99999999999999999/messages?offset=0", 404),
    ],
)
def test_bad_pulls(client, topic, consumer, query, status):
    is_problem(client.get(f"/api/v1/topics/{topic}/queues/{query}"), status)


def test_what_is_not_there(client, topic, consumer):
    path = f"/api/v1/groups/g{topic}/topics"
    is_problem(client.get(f"{path}/{topic}/members"), 404)
    is_problem(client.post(f"{path}/{topic}-none/members/a"), 404)
    is_problem(client.post(f"{path}/{topic}-none/offsets", json=GOOD), 404)
    is_problem(client.delete(f"{path}/{topic}-none/members/a"), 404)
    is_problem(client.post(f"/api/v1/groups/a%2Fb/topics/{topic}/members/a"), 400)
    is_problem(client.get(f"/api/v1/topics/{topic}-none/queues/0/messages?offset=0"), 404)
