"""Dead letters by reason: counted, listed, resent and deleted."""

from __future__ import annotations

import json

import pytest

from entrepot.domain.ports import PopRequest
from tests.e2e.http.steps import event, get, ids, is_problem, publish, receive
from tests.e2e.http.test_http_cli import entrepot, ok
from tests.support.cases import cases

GROUPS = "/api/v1/groups"
__all__ = ["entrepot"]


@pytest.fixture
def group(server, client, topic):
    """A group with six dead letters: those with odd numbers have another reason."""
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    client.put(f"{GROUPS}/{topic}", json={})
    publish(client, topic, *(event(number, data={"n": number}) for number in range(6)))

    async def reject() -> None:
        consumption = server.store.consumption
        popped = list(await consumption.pop(PopRequest(topic, topic, 10)))
        for number, delivery in enumerate(popped):
            assert await consumption.reject(topic, topic, [delivery], "odd <b>" if number % 2 else "even") == [None]

    server.run(reject())
    return topic


def letters(client, group, **query):
    return [one["offset"] for one in get(client, f"{GROUPS}/{group}/dead-letters", **query)["value"]]


def act(client, group, verb, **body):
    answer = client.post(f"{GROUPS}/{group}/dead-letters:{verb}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.everywhere
def test_reasons_are_counted(client, group):
    counted = get(client, f"{GROUPS}/{group}/dead-letters:reasons")
    assert [(one["reason"], one["count"], one["firstOffset"]) for one in counted["value"]] == [
        ("even", 3, "0"),
        ("odd <b>", 3, "1"),
    ]
    assert (counted["lookedAt"], counted["total"], counted["isComplete"], counted["next"]) == (6, 6, True, None)
    assert all(one["oldest"] <= one["newest"] for one in counted["value"])


def test_a_count_says_how_far_it_came(client, group):
    first = get(client, f"{GROUPS}/{group}/dead-letters:reasons", scan=4)
    assert (first["lookedAt"], first["total"], first["isComplete"], first["next"]) == (4, 6, False, "4")
    rest = get(client, f"{GROUPS}/{group}/dead-letters:reasons", from_offset=first["next"])
    assert (rest["lookedAt"], rest["isComplete"]) == (2, True)
    assert get(client, f"{GROUPS}/{group}/dead-letters:reasons", from_offset=99)["value"] == []
    is_problem(client.get(f"{GROUPS}/none-{group}/dead-letters:reasons"), 404)


def test_dead_letters_of_one_reason_are_listed(client, group):
    assert letters(client, group, reason="odd <b>") == [1, 3, 5]
    page = get(client, f"{GROUPS}/{group}/dead-letters", reason="odd <b>", limit=2)
    assert [one["offset"] for one in page["value"]] == [1, 3]
    assert letters(client, group, reason="odd <b>", from_offset=page["next"]) == [5]
    assert letters(client, group, reason="none") == []


def test_dead_letters_of_one_reason_are_resent(server, client, topic, group):
    outcome = act(client, group, "resend", reason="odd <b>")
    assert outcome == {"resentOffsets": [1, 3, 5], "failedOffsets": [], "next": None}
    assert ids(receive(client, topic, group)) == ["e1", "e3", "e5"]
    entry = next(each for each in server.parts.security.audit.newest(10) if each.event == "dead letters resent")
    assert (entry.resource, entry.detail) == (f"group {group}", "3 of reason 'odd <b>', 0 failed, status 200")
    assert act(client, group, "resend", reason="odd <b>", fromOffset=4)["resentOffsets"] == [5]


@pytest.mark.everywhere
def test_some_are_deleted(server, client, topic, group):
    outcome = act(client, group, "delete", offsets=[1, 4, 99])
    assert (outcome["deleted"], [one["offset"] for one in outcome["failedOffsets"]]) == (2, [99])
    assert letters(client, group) == [0, 2, 3, 5]
    counted = get(client, f"{GROUPS}/{group}/dead-letters:reasons")["value"]
    assert {one["reason"]: one["count"] for one in counted} == {"even": 2, "odd <b>": 2}
    exported = client.get(f"{GROUPS}/{group}/dead-letters:export").text.splitlines()
    assert [json.loads(line)["offset"] for line in exported] == [0, 2, 3, 5]
    again = act(client, group, "delete", offsets=[1])
    assert (again["deleted"], "already" in again["failedOffsets"][0]["error"]["message"]) == (0, True)
    resent = act(client, group, "resend", offsets=[1, 2])
    assert (resent["resentOffsets"], [one["offset"] for one in resent["failedOffsets"]]) == ([2], [1])
    assert act(client, group, "resend", all=True)["resentOffsets"] == [0, 2, 3, 5]
    entry = next(each for each in server.parts.security.audit.newest(10) if each.event == "dead letters deleted")
    assert (entry.resource, entry.detail) == (f"group {group}", "0, 1 failed, status 200")


@pytest.mark.everywhere
def test_one_reason_and_all_are_deleted(client, topic, group):
    assert act(client, group, "delete", reason="even") == {"deleted": 3, "failedOffsets": [], "next": None}
    assert letters(client, group) == [1, 3, 5]
    assert act(client, group, "delete", all=True) == {"deleted": 3, "failedOffsets": [], "next": None}
    assert letters(client, group) == []
    assert act(client, group, "delete", all=True)["deleted"] == 0
    publish(client, topic, event(9))
    [one] = receive(client, topic, group)
    token = {"lockTokens": [one["brokerProperties"]["lockToken"]]}
    client.post(f"/topics/{topic}/eventsubscriptions/{group}:reject", json=token)
    assert len(letters(client, group)) == 1, "letters that come later are none of the deleted ones"


@cases(
    "body",
    ({}, {"all": False}, {"all": True, "reason": "x"}, {"offsets": [], "all": True}, {"offsets": [1], "fromOffset": 1}),
)
def test_an_action_names_its_letters(client, group, body):
    for verb in ("resend", "delete"):
        is_problem(client.post(f"{GROUPS}/{group}/dead-letters:{verb}", json=body), 400)
    is_problem(client.post(f"{GROUPS}/none-{group}/dead-letters:delete", json={"offsets": [1]}), 404)


def test_commands(entrepot, client, topic, group):
    table = ok(entrepot("group", "dead-letters", group, "--reasons"))
    assert "even" in table and "3" in table
    listed = json.loads(ok(entrepot("group", "dead-letters", group, "--reason", "even", "--json")))
    assert [one["offset"] for one in listed["value"]] == [0, 2, 4]
    assert "resent 3" in ok(entrepot("group", "resend", group, "--reason", "even"))
    assert "deleted 1" in ok(entrepot("group", "delete-dead-letters", group, "0", "-y"))
    code, _, err = entrepot("group", "delete-dead-letters", group, "0", "-y")
    assert code == 1 and "1 of 1 could not be deleted" in err
    assert "deleted 3" in ok(entrepot("group", "delete-dead-letters", group, "--reason", "odd <b>", "-y"))
    assert "deleted 2" in ok(entrepot("group", "delete-dead-letters", group, "--all", "-y"))
    assert entrepot("group", "delete-dead-letters", group, "-y")[0] == 2
