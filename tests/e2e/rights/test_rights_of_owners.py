"""Things of a user or a group are not another's, whatever else that one may do."""

from __future__ import annotations

import uuid

from tests.e2e.rights.grid import Doors, said
from tests.e2e.rights.rows_http import EVENT, SINK


def name_of(kind: str) -> str:
    return f"{kind}{uuid.uuid4().hex[:10]}"


def test_a_subscription_is_its_users(doors: Doors) -> None:
    """Whoever may consume its topic sees it.  Only who may also change that topic sends its events elsewhere."""
    reads, changes = ("SUB", "Topic:grid/#"), ("UPDATE", "Topic:grid")
    body = {**SINK, "source": "grid"}
    with (
        doors.http(doors.user(*said("ALLOW", reads))) as owner,
        doors.http(doors.user(*said("ALLOW", reads))) as other,
        doors.http(doors.user(*said("ALLOW", reads, changes))) as operator,
        doors.http(doors.user(*said("ALLOW", changes))) as stranger,
    ):
        made = owner.post("/subscriptions", json=body)
        assert made.status_code == 201, made.text
        path = f"/subscriptions/{made.json()['id']}"
        elsewhere = {**body, "sink": "https://elsewhere.example/"}
        for client in (other, stranger):
            assert client.put(path, json=elsewhere).status_code == client.delete(path).status_code == 403
        assert other.get(path).status_code == 200
        assert operator.put(path, json=body).status_code == 200
        assert owner.put(path, json=body).status_code == 200, "it is still the owner's"
        assert other.delete(path).status_code == 403
        assert owner.delete(path).status_code == 204


def test_a_lock_token_is_its_groups(doors: Doors) -> None:
    """It counts for the group that it was given to, and only members of that group may show it."""
    topic, mine, theirs = name_of("t"), name_of("g"), name_of("g")
    assert doors.root.put(f"/api/v1/topics/{topic}", json={}).status_code == 201
    reads = ("SUB", f"Topic:{topic}/#")
    with (
        doors.http(doors.user(*said("ALLOW", reads, ("SUB", f"Group:{theirs}")))) as owner,
        doors.http(doors.user(*said("ALLOW", reads, ("SUB", f"Group:{mine}")))) as other,
    ):
        events = f"/topics/{topic}/eventsubscriptions"
        for client, group in ((owner, theirs), (other, mine)):  # both begin before the event
            assert client.post(f"{events}/{group}:receive?maxWaitTime=0").json() == {"value": []}
        assert doors.root.post(f"/topics/{topic}:publish", headers=EVENT).status_code == 200
        [held] = owner.post(f"{events}/{theirs}:receive?maxWaitTime=5").json()["value"]
        token = {"lockTokens": [held["brokerProperties"]["lockToken"]]}
        for verb in ("acknowledge", "release", "reject", "renewLock"):
            assert other.post(f"{events}/{theirs}:{verb}", json=token).status_code == 403
            [failed] = other.post(f"{events}/{mine}:{verb}", json=token).json()["failedLockTokens"]
            assert failed["error"]["code"] == "INVALID_RECEIPT_HANDLE"
        assert owner.post(f"{events}/{theirs}:acknowledge", json=token).json()["failedLockTokens"] == []
