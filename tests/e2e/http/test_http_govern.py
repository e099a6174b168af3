"""Users, policies, the access tester and namespaces through a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from entrepot.gateway.settings import SecuritySettings, Settings
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer, serving

HOSTILE = "<b>\u202e${username}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    cheap = SecuritySettings(**CHEAP_HASHES, initial_admin="root", initial_admin_password="root")
    with serving("memory", tmp_path_factory.mktemp("data"), Settings(security=cheap)) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: HttpServer) -> Iterator[httpx2.Client]:
    with http_client(server.url, auth=("root", "root")) as client:
        yield client


def say(root: httpx2.Client, subject: str, *statements: tuple[str, str, str]) -> None:
    said = [
        {"effect": effect, "actions": actions.split(","), "resources": resources.split(",")}
        for effect, actions, resources in statements
    ]
    assert root.put(f"/api/v1/acls/{subject}", json={"statements": said}).status_code in (200, 201)


def got(client: httpx2.Client, path: str, **query: Any) -> Any:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def till(root: httpx2.Client) -> Iterator[str]:
    """A user whose policy has a statement of each kind."""
    assert root.put("/api/v1/users/till", json={"password": "pw"}).status_code in (200, 201)
    say(
        root,
        "till",
        ("ALLOW", "PUB", "Topic:orders/${username}/#"),
        ("ALLOW", "PUB,SUB", "Topic:orders/shop-17/#,Topic:config/#"),
        ("DENY", "ALL", "Topic:config/secret/#"),
        ("ALLOW", "SUB", "Group:wall"),
    )
    say(root, "*", ("ALLOW", "GET", "Cluster:*"))
    yield "till"
    assert root.delete("/api/v1/acls/*").status_code == 204


# -- the tester --------------------------------------------------------------------------------------------------------


def test_a_decision_names_its_statement_and_what_would_follow(root: httpx2.Client, till: str) -> None:
    told = got(root, "/api/v1/acls:explain", subject=till, action="SUB", resource="Topic:config/secret/keys")
    assert (told["decision"], told["subject"], told["index"]) == ("DENY", "User:till", 3)
    assert told["statement"]["text"] == "DENY ALL on Topic:config/secret/#"
    assert told["otherwise"]["decision"] == "ALLOW"
    assert told["otherwise"]["index"] == 2
    assert [(each["subject"], each["index"], each["outcome"]) for each in told["considered"]] == [
        ("User:till", 1, "otherAction"),
        ("User:till", 2, "holds"),
        ("User:till", 3, "decides"),
        ("User:till", 4, "otherResource"),
        ("User:*", 1, "otherAction"),
    ]
    allowed = got(root, "/api/v1/acls:explain", subject=till, action="PUB", resource="Topic:orders/till/1")
    assert (allowed["decision"], allowed["index"]) == ("ALLOW", 1)
    assert allowed["otherwise"] == {"decision": "DENY", "subject": None, "index": None, "statement": None}
    nothing = got(root, "/api/v1/acls:explain", subject="nobody", action="PUB", resource="Topic:orders/till/1")
    assert (nothing["decision"], nothing["index"], nothing["otherwise"]) == ("DENY", None, None)
    super_user = got(root, "/api/v1/acls:explain", subject="root", action="PUB", resource="Topic:x")
    assert (super_user["decision"], super_user["reason"], super_user["considered"]) == ("ALLOW", "a super user", [])


def test_the_tester_says_what_the_doors_do(root: httpx2.Client, server: HttpServer, till: str) -> None:
    event = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/me"}
    with http_client(server.url, auth=("till", "pw")) as client:
        for topic, subject in (("orders", "till/1"), ("orders", "other/1"), ("config", "a"), ("config", "secret/a")):
            told = got(root, "/api/v1/acls:explain", subject=till, action="PUB", resource=f"Topic:{topic}/{subject}")
            answer = client.post(f"/topics/{topic}:publish", headers={**event, "ce-subject": subject})
            assert (answer.status_code == 200) == (told["decision"] == "ALLOW"), (topic, subject, answer.text)


def test_what_a_user_may_do(root: httpx2.Client, till: str) -> None:
    told = got(root, "/api/v1/acls:effective", subject="User:till")
    assert (told["subject"], told["isUser"], told["super"], told["decision"]) == ("User:till", True, False, None)
    assert [(each["subject"], each["index"]) for each in told["value"]] == [
        *(("User:till", index) for index in range(1, 5)),
        ("User:*", 1),
    ]
    assert told["value"][0]["text"] == "ALLOW PUB on Topic:orders/${username}/#"
    assert root.put("/api/v1/users/till", json={"enabled": False}).status_code == 200
    off = got(root, "/api/v1/acls:effective", subject="till")
    assert (off["decision"], off["reason"], off["value"]) == ("DENY", "the user is disabled", [])
    assert root.put("/api/v1/users/till", json={"enabled": True}).status_code == 200
    whole = got(root, "/api/v1/acls:effective", subject="root")
    assert (whole["super"], whole["decision"], whole["reason"]) == (True, "ALLOW", "a super user")


def test_who_may_what(root: httpx2.Client, till: str) -> None:
    for name in ("who-a", "who-b", "who-c", "who-d"):
        assert root.put(f"/api/v1/users/{name}", json={"password": "pw"}).status_code == 201
    say(root, "who-a", ("ALLOW", "SUB", "Topic:config/#"))
    say(root, "who-b", ("ALLOW", "SUB", "Topic:config/a"))
    say(root, "who-c", ("DENY", "SUB", "Topic:config/a"), ("ALLOW", "SUB", "Topic:config/#"))
    found = got(root, "/api/v1/acls:who", resource="Topic:config/#", find="WHO-")["value"]
    assert {each["subject"]: each["actions"]["SUB"] for each in found} == {
        "User:who-a": "allowed",
        "User:who-b": "some",
        "User:who-c": "denied",
    }
    assert set(found[0]["actions"]) == {"PUB", "SUB", "CREATE", "UPDATE", "DELETE", "GET", "LIST"}
    every = got(root, "/api/v1/acls:who", resource="Topic:config/#", find="who-", may="all")["value"]
    assert [each["subject"] for each in every] == [f"User:who-{letter}" for letter in "abcd"]
    paged, after = [], ""
    while after is not None:
        page = got(root, "/api/v1/acls:who", resource="Topic:config/#", limit=2, after=after)
        paged += page["value"]
        after = page["next"]
    assert paged == got(root, "/api/v1/acls:who", resource="Topic:config/#")["value"]
    by_subject = {each["subject"]: each for each in paged}
    assert set(by_subject["User:root"]["actions"].values()) == {"allowed"}
    assert by_subject["User:till"]["actions"]["SUB"] == "denied", "a part is denied, so the whole is"


def test_the_tester_refuses_nonsense(root: httpx2.Client) -> None:
    for path in (
        "/api/v1/acls:explain?subject=a&action=ALL&resource=Topic:a",
        "/api/v1/acls:explain?subject=a&action=PUB&resource=Nothing:a",
        "/api/v1/acls:explain?subject=&action=PUB&resource=Topic:a",
        "/api/v1/acls:explain?subject=a&resource=Topic:a",
        "/api/v1/acls:effective",
        "/api/v1/acls:who?resource=a",
        "/api/v1/acls:who?resource=Topic:a&limit=0",
        "/api/v1/acls:who?resource=Topic:a&may=everything",
    ):
        answer = root.get(path)
        assert answer.status_code == 400, path
        assert answer.headers["content-type"] == "application/problem+json"


# -- users and policies ------------------------------------------------------------------------------------------------


def test_users_are_found_and_paged(root: httpx2.Client) -> None:
    for name in ("list-a", "LIST-b", "list-c"):
        assert root.put(f"/api/v1/users/{name}", json={"password": "canary"}).status_code == 201
    assert root.put("/api/v1/users/list-c", json={"enabled": False}).status_code == 200
    say(root, "list-a", ("ALLOW", "PUB", "Topic:a"), ("ALLOW", "SUB", "Topic:a"))
    found = got(root, "/api/v1/users", find="list-")["value"]
    assert [(each["name"], each["statements"]) for each in found] == [("LIST-b", 0), ("list-a", 2), ("list-c", 0)]
    assert [each["name"] for each in got(root, "/api/v1/users", find="LIST", enabled=False)["value"]] == ["list-c"]
    assert [each["name"] for each in got(root, "/api/v1/users", super=True)["value"]] == ["root"]
    first = got(root, "/api/v1/users", find="list-", limit=2)
    assert [each["name"] for each in first["value"]] == ["LIST-b", "list-a"]
    rest = got(root, "/api/v1/users", find="list-", limit=2, after=first["next"])
    assert ([each["name"] for each in rest["value"]], rest["next"]) == (["list-c"], None)
    policies = got(root, "/api/v1/acls", find="IST-A")["value"]
    assert [each["subject"] for each in policies] == ["User:list-a"]
    assert root.put("/api/v1/acls/list-a", json={"statements": policies[0]["statements"]}).status_code == 200
    assert "canary" not in root.get("/api/v1/users").text


def test_what_exists_is_not_created_over(root: httpx2.Client) -> None:
    only_new = {"if-none-match": "*"}
    for path, body, other in (
        ("/api/v1/users/only", {"password": "canary"}, {"enabled": False}),
        ("/api/v1/acls/only", {"statements": []}, {"statements": [_statement()]}),
    ):
        assert root.put(path, json=body, headers=only_new).status_code == 201
        before = got(root, path)
        refused = root.put(path, json=other, headers=only_new)
        assert (refused.status_code, "already" in refused.json()["detail"]) == (409, True)
        assert got(root, path) == before
        assert root.put(path, json=other, headers={"if-none-match": '"etag"'}).status_code == 400
        assert root.put(path, json=other).status_code == 200
        assert got(root, path) != before


def _statement() -> dict[str, Any]:
    return {"effect": "ALLOW", "actions": ["PUB"], "resources": ["Topic:a"]}


def test_nobody_loses_the_own_rights_unasked(server: HttpServer, root: httpx2.Client) -> None:
    own = "/api/v1/users/boss"
    assert root.put(own, json={"password": "pw", "super": True}).status_code == 201
    with http_client(server.url, auth=("boss", "pw")) as boss:
        for refused in (
            boss.delete(own),
            boss.put(own, json={"super": False}),
            boss.put(own, json={"enabled": False}),
            boss.put(own, params={"confirm": "yes"}, json={"super": False}),
        ):
            assert refused.status_code in (400, 409), refused.text
        assert "confirm=own-rights" in boss.delete(own).json()["detail"]
        assert boss.put(own, json={"enabled": True}).status_code == 200, "nothing is lost by this"
        assert boss.delete("/api/v1/users/root", params={"confirm": "own-rights"}).status_code == 204
        assert boss.delete(own, params={"confirm": "own-rights"}).status_code == 409, "the last super user stays"
        assert boss.put("/api/v1/users/root", json={"password": "root", "super": True}).status_code == 201
        assert boss.put(own, params={"confirm": "own-rights"}, json={"super": False}).status_code == 200
        assert boss.get("/api/v1/users").status_code == 403
        assert boss.delete(own).status_code == 403
    with http_client(server.url, auth=("root", "root")) as again:
        assert again.delete(own).status_code == 204


def test_hostile_names_come_back_as_they_are(root: httpx2.Client) -> None:
    told = got(root, "/api/v1/acls:effective", subject=HOSTILE)
    assert (told["subject"], told["isUser"], told["enabled"]) == (f"User:{HOSTILE}", False, None)
    answer = root.put(f"/api/v1/users/{HOSTILE}", json={"password": "pw"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


# -- namespaces --------------------------------------------------------------------------------------------------------


def test_namespaces_are_paged_and_counted(root: httpx2.Client) -> None:
    for name in ("ns-a", "ns-b", "an-ns"):
        assert root.put(f"/api/v1/namespaces/{name}", json={}).status_code == 201
    for topic in ("x", "y"):
        assert root.put(f"/api/v1/namespaces/ns-b/topics/{topic}", json={}).status_code == 201
    assert root.put("/api/v1/namespaces/ns-b/groups/g", json={}).status_code == 201
    every = got(root, "/api/v1/namespaces")
    assert every["next"] is None
    assert [each["name"] for each in every["value"]] == ["default", "an-ns", "ns-a", "ns-b"]
    paged, after = [], ""
    while after is not None:
        page = got(root, "/api/v1/namespaces", limit=1, after=after)
        paged += page["value"]
        after = page["next"]
    assert paged == every["value"]
    assert paged[-1] == {
        "name": "ns-b",
        "topics": 2,
        "groups": 1,
        "vhost": None,
        "queues": None,
        "exchanges": None,
        "queuePolicies": None,
    }
    assert [each["name"] for each in got(root, "/api/v1/namespaces", find="NS-")["value"]] == ["ns-a", "ns-b"]
