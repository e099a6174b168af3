"""The management API at our server and at RabbitMQ: paths, challenges, defaults, columns; both hold to one text."""

from __future__ import annotations

import base64
import hashlib
from uuid import uuid4

import httpx2

from tests.support.amqp.management import Managed
from tests.support.cases import cases


def name() -> str:
    return f"n{uuid4().hex[:10]}"


@cases("path", ["/vhosts/", "/queues/%2F/", "/whoami/", "/exchanges/%2F/amq.topic/", "/nodes/?columns=name"])
def test_a_slash_at_the_end_counts_for_nothing(managed: Managed, path: str) -> None:
    answer = managed.ask("GET", path)
    assert (answer.status_code, answer.history) == (200, [])
    assert answer.json() == managed.get(path.replace("/?", "?").rstrip("/"))


def test_a_slash_too_many_and_a_wrong_path_are_told_in_rabbitmqs_words(managed: Managed) -> None:
    for path in ("/vhosts//", "/nothing", "/queues//"):
        answer = managed.ask("GET", path)
        assert (answer.status_code, answer.json()["error"]) == (404, "Object Not Found")


def test_what_is_made_with_a_slash_at_the_end_has_the_name_without_it(managed: Managed) -> None:
    queue = name()
    assert managed.do("PUT", f"/queues/%2F/{queue}/", {}) == 201
    assert managed.get(f"/queues/%2F/{queue}?columns=name") == {"name": queue}
    assert managed.do("DELETE", f"/queues/%2F/{queue}/") == 204


def test_the_challenge_names_the_realm_of_rabbitmq(managed: Managed) -> None:
    for auth in (None, ("guest", "wrong")):
        answer = httpx2.get(f"{managed.url}/api/overview", auth=auth, trust_env=False)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith('Basic realm="RabbitMQ Management"')
    if managed.is_ours:
        elsewhere = httpx2.get(f"{managed.url}/api/v1/topics", trust_env=False)
        assert elsewhere.headers["www-authenticate"].startswith('Basic realm="entrepot"')


@cases("body", [{}, {"auto_delete": True}, {"durable": True}, {"arguments": {}}])
def test_what_a_body_does_not_say_is_as_at_rabbitmq(managed: Managed, body: dict[str, object]) -> None:
    for kind in ("queues", "exchanges"):
        path = f"/{kind}/%2F/{name()}"
        assert managed.do("PUT", path, body) == 201
        found = managed.get(path)
        assert (found["durable"], found["auto_delete"]) == (body.get("durable", False), body.get("auto_delete", False))
        if kind == "exchanges":
            assert (found["type"], found["internal"]) == ("direct", False)
        managed.do("DELETE", path)


@cases(
    "path, columns",
    [
        ("/overview", ["node", "cluster_name"]),
        ("/whoami", ["name"]),
        ("/cluster-name", ["name"]),
        ("/vhosts/%2F", ["name", "tracing"]),
        ("/users/guest", ["tags"]),
        ("/exchanges/%2F/amq.topic", ["type", "vhost"]),
        ("/definitions", ["queues", "vhosts"]),
        ("/definitions/%2F", ["queues"]),
    ],
)
def test_columns_are_chosen_of_a_single_object(managed: Managed, path: str, columns: list[str]) -> None:
    found = managed.get(f"{path}?columns={','.join(columns)}")
    whole = managed.get(path)
    assert sorted(found) == sorted(columns)
    assert found == {column: whole[column] for column in columns}


def test_columns_of_what_is_open_and_bound(managed: Managed) -> None:
    queue = name()
    managed.do("PUT", f"/queues/%2F/{queue}", {"durable": True})
    managed.do("POST", f"/bindings/%2F/e/amq.topic/q/{queue}", {"routing_key": "a.b"})
    managed.do("PUT", f"/policies/%2F/{queue}", {"pattern": queue, "definition": {"max-length": 1}})
    managed.do("PUT", f"/permissions/%2F/{'guest'}", {"configure": ".*", "write": ".*", "read": ".*"})
    for path, column in (
        (f"/queues/%2F/{queue}", "name"),
        (f"/bindings/%2F/e/amq.topic/q/{queue}/a.b", "routing_key"),
        (f"/policies/%2F/{queue}", "pattern"),
        ("/permissions/%2F/guest", "write"),
        (f"/nodes/{managed.get('/overview')['node']}", "name"),
    ):
        assert managed.get(f"{path}?columns={column}") == {column: managed.get(path)[column]}
    managed.do("DELETE", f"/policies/%2F/{queue}")
    managed.do("DELETE", f"/queues/%2F/{queue}")


def test_permissions_are_given_to_users_that_are_there(managed: Managed) -> None:
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    for path in (f"/permissions/%2F/{name()}", f"/permissions/{name()}/guest"):
        answer = managed.ask("PUT", path, rights)
        assert answer.status_code == 400
        assert (answer.json()["error"], answer.json()["reason"]) == ("bad_request", "vhost_or_user_not_found")
    answer = managed.ask("PUT", "/permissions/%2F/guest", {"configure": ".*"})
    assert answer.status_code == 400


def test_a_user_with_a_hash_logs_in_and_keeps_its_tags(managed: Managed) -> None:
    for algorithm, digest in (("sha256", hashlib.sha256), ("sha512", hashlib.sha512)):
        user, named = name(), f"rabbit_password_hashing_{algorithm}"
        hashed = base64.b64encode(b"salt" + digest(b"salt" + user.encode()).digest()).decode()
        given = {"password_hash": hashed, "hashing_algorithm": named, "tags": "monitoring,management"}
        assert managed.do("PUT", f"/users/{user}", given) == 201
        assert managed.get(f"/users/{user}?columns=tags") == {"tags": ["monitoring", "management"]}
        assert managed.get("/whoami", user=user) == {"name": user, "tags": ["monitoring", "management"]}
        assert managed.ask("GET", "/whoami", user=user, password="other").status_code == 401
        [row] = [each for each in managed.get("/definitions")["users"] if each["name"] == user]
        assert row["tags"] == ["monitoring", "management"]
        assert (row["password_hash"], row["hashing_algorithm"]) == (hashed, named)
        managed.do("DELETE", f"/users/{user}")
        assert managed.do("POST", "/definitions", {"users": [row]}) in (201, 204)
        assert managed.get("/whoami", user=user)["name"] == user
        managed.do("DELETE", f"/users/{user}")


def test_a_publish_that_a_full_queue_rejects_is_a_bad_request(managed: Managed) -> None:
    full, other = name(), name()
    managed.do("PUT", f"/queues/%2F/{full}", {"arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}})
    managed.do("PUT", f"/queues/%2F/{other}", {})
    body = {"payload": "x", "properties": {"headers": {"CC": [other]}}, "payload_encoding": "string"}
    path = "/exchanges/%2F/amq.default/publish"
    answers = [managed.ask("POST", path, {**body, "routing_key": full}) for _ in range(3)]
    assert [each.status_code for each in answers] == [200, 400, 400]
    assert answers[2].json()["reason"] == "rejected Unable to publish message. Check queue limits."
    got = {"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"}
    found = [managed.ask("POST", f"/queues/%2F/{queue}/get", got).json() for queue in (full, other)]
    assert [len(each) for each in found] == [1, 3], "the other queue has them all"
    for queue in (full, other):
        managed.do("DELETE", f"/queues/%2F/{queue}")
