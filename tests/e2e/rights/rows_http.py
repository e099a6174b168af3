"""The grid's rows of the HTTP door: ways to name messages.  What other routes need is in the HTTP door's own grid."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx2

from entrepot.domain.timestamp import to_rfc3339
from tests.e2e.rights.grid import Doors, Need, Row

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/me"}
BATCH = "application/cloudevents-batch+json"
STRUCTURED = "application/cloudevents+json"
GRID = "/topics/grid:publish"
NAMESPACED = "/namespaces/plant/topics/grid"
SINK = {"sink": "https://receiver.example/", "protocol": "HTTP", "config": {"handshake": "off"}}
CONSUMING: tuple[Need, ...] = (("SUB", "Topic:grid/#"), ("SUB", "Group:workers"))
OF_PLANT: tuple[Need, ...] = (("SUB", "Topic:$ns/plant/grid/#"), ("SUB", "Group:$ns/plant/workers"))
SUBSCRIPTION = "eventsubscriptions/workers"
Send = Callable[[httpx2.Client], httpx2.Response]


def http(form: str, method: str, path: str, needs: tuple[Need, ...], *ways: str, **options: Any) -> Row:
    route = f"{method} {path.partition('?')[0]}"
    return trying(form, route, needs, lambda client: client.request(method, path, **options), *ways)


def trying(form: str, route: str, needs: tuple[Need, ...], send: Send, *ways: str) -> Row:
    def is_denied(doors: Doors, user: str) -> bool:
        with doors.http(user) as client:
            answer = send(client)
        assert answer.status_code != 401 and answer.status_code < 500, answer.text
        return bool(answer.status_code == 403)

    return Row("HTTP", route, form, needs, is_denied, frozenset((route, *ways)))


def event(subject: str) -> dict[str, str]:
    return {"specversion": "1.0", "id": subject, "type": "t", "source": "/", "subject": subject}


def pub(*names: str) -> tuple[Need, ...]:
    return tuple(("PUB", f"Topic:{name}") for name in names)


def message(key: str, **headers: Any) -> dict[str, Any]:
    return {"routing_key": key, "payload": "x", "properties": {"headers": headers} if headers else {}}


def timer(doors: Doors) -> str:
    """The handle of an event that waits."""
    later = to_rfc3339(int((time.time() + 3600) * 1000))
    headers = {**EVENT, "ce-subject": "secret", "ce-deliverytime": str(later)}
    assert doors.root.post(GRID, headers=headers).status_code == 200
    return str(doors.root.get("/api/v1/timers?topic=grid").json()["value"][0]["handle"])


def recalling() -> Row:
    def is_denied(doors: Doors, user: str) -> bool:
        handle = timer(doors)
        with doors.http(user) as client:
            answer = client.delete(f"/api/v1/timers/{handle}")
        assert answer.status_code in (204, 403), answer.text
        return bool(answer.status_code == 403)

    route = "DELETE /api/v1/timers/{handle}"
    return Row("HTTP", route, "a recall handle", pub("grid/#"), is_denied, frozenset((route,)))


PUBLISHING = [
    http("subject", "POST", GRID, pub("grid/secret/x"), headers={**EVENT, "ce-subject": "secret/x"}),
    http("a topic alone", "POST", GRID, pub("grid"), headers=EVENT),
    http("subject, percent-encoded", "POST", GRID, pub("grid/secret/x"), headers={**EVENT, "ce-subject": "secret%2Fx"}),
    http(
        "path, percent-encoded", "POST", "/topics/gr%69d:publish", pub("grid/a"), headers={**EVENT, "ce-subject": "a"}
    ),
    http("an exchange with a dot", "POST", "/topics/grid%252Ex:publish", pub("grid%2Ex"), headers=EVENT),
    http("namespace", "POST", f"{NAMESPACED}:publish", pub("$ns/plant/grid/a"), headers={**EVENT, "ce-subject": "a"}),
    http("structured", "POST", GRID, pub("grid/a"), headers={"content-type": STRUCTURED}, json=event("a")),
    http(
        "batch",
        "POST",
        GRID,
        pub("grid/a", "grid/secret"),
        headers={"content-type": BATCH},
        json=[event("a"), event("secret")],
    ),
    trying(
        "delayed",
        f"POST {GRID}",
        pub("grid/secret"),
        lambda client: client.post(
            GRID,
            headers={
                **EVENT,
                "ce-subject": "secret",
                "ce-deliverytime": str(to_rfc3339(int((time.time() + 3600) * 1000))),
            },
        ),
    ),
    recalling(),
    http("retained", "DELETE", "/api/v1/retained/grid%2Fsecret", pub("grid/secret")),
    http(
        "retained, a filter",
        "DELETE",
        "/api/v1/retained?filter=grid/secret/%23",
        pub("grid/secret/#"),
        "deleteRetainedMatching filter",
    ),
]
READING = [
    http("a group", "POST", f"/topics/grid/{SUBSCRIPTION}:receive?maxWaitTime=0", CONSUMING),
    http("a group of a namespace", "POST", f"{NAMESPACED}/{SUBSCRIPTION}:receive?maxWaitTime=0", OF_PLANT),
    http("path, percent-encoded", "POST", f"/topics/gr%69d/{SUBSCRIPTION}:receive?maxWaitTime=0", CONSUMING),
    http(
        "the Topic of names that have none",
        "POST",
        "/topics/mqtt/eventsubscriptions/workers:receive?maxWaitTime=0",
        (("SUB", "Topic:*"), ("SUB", "Group:workers")),
    ),
    http(
        "a queue",
        "POST",
        "/topics/%25AMQP%25gq/eventsubscriptions/gq:receive?maxWaitTime=0",
        (("SUB", "Topic:%AMQP%gq/#"), ("SUB", "Group:gq")),
    ),
    *(
        http("lock token", "POST", f"/topics/grid/{SUBSCRIPTION}:{verb}", CONSUMING, json={"lockTokens": ["x"]})
        for verb in ("acknowledge", "release", "reject", "renewLock")
    ),
    http("stream of events", "GET", "/topics/grid/events?start=nonsense", (CONSUMING[0],)),
    http("webhook", "POST", "/subscriptions", (CONSUMING[0],), json={**SINK, "source": "grid", "filters": [{}]}),
    http(
        "retained",
        "GET",
        "/api/v1/retained?filter=grid/secret/%23",
        (("SUB", "Topic:grid/secret/#"),),
        "listRetained filter",
    ),
    http("a queue of a topic", "GET", "/api/v1/topics/grid/queues/0/messages?offset=0", (CONSUMING[0],)),
    http("a query", "GET", "/api/v1/messages?topic=grid", (CONSUMING[0],), "queryMessages topic"),
    http("timers", "GET", "/api/v1/timers?topic=grid", (CONSUMING[0],), "listTimers topic"),
]
AT = "/api/exchanges/%2F"
BETWEEN = "/api/bindings/%2F/e/grid"
LETTERS = {"x-dead-letter-exchange": "grid", "x-dead-letter-routing-key": "secret.x"}
BIND: Need = ("UPDATE", "Topic:gq")
GOVERN: tuple[Need, ...] = (("UPDATE", "Topic:*"), ("SUB", "Group:*"))
AS_POLICY = "/api/policies/%2F/p"
POLICY = {"pattern": "^nothing$", "definition": {"dead-letter-exchange": "grid"}}
OF_RABBITMQ = [
    http("exchange and key", "POST", f"{AT}/grid/publish", pub("grid/secret/x"), json=message("secret.x")),
    http("CC", "POST", f"{AT}/grid/publish", pub("grid/a", "grid/secret"), json=message("a", CC=["secret"])),
    http("BCC", "POST", f"{AT}/grid/publish", pub("grid/a", "grid/secret"), json=message("a", BCC=["secret"])),
    http("a queue", "POST", f"{AT}/amq.default/publish", pub("gq"), json=message("gq")),
    http("a name of MQTT", "POST", f"{AT}/amq.topic/publish", pub("a/b"), json=message("a.b")),
    http("an exchange with a dot", "POST", f"{AT}/grid%2Ex/publish", pub("grid%2Ex/a"), json=message("a")),
    http("virtual host", "POST", "/api/exchanges/plant/grid/publish", pub("$ns/plant/grid/a"), json=message("a")),
    http("pattern", "POST", f"{BETWEEN}/q/gq", (BIND, ("SUB", "Topic:grid/a/+")), json={"routing_key": "a.*"}),
    http(
        "bound exchanges",
        "POST",
        f"{BETWEEN}/e/direct",
        (("UPDATE", "Topic:direct"), ("SUB", "Topic:grid/b"), *pub("direct/b")),
        json={"routing_key": "b"},
    ),
    http(
        "dead letters",
        "PUT",
        "/api/queues/%2F/h1",
        (("CREATE", "Topic:h1"), ("SUB", "Group:h1"), *pub("grid/secret/x")),
        json={"arguments": LETTERS},
    ),
    http(
        "alternate",
        "PUT",
        f"{AT}/h2",
        (("CREATE", "Topic:h2"), ("SUB", "Topic:h2/#"), *pub("grid/#")),
        json={"arguments": {"alternate-exchange": "grid"}},
    ),
    http(
        "dead letters of a policy",
        "PUT",
        AS_POLICY,
        (*GOVERN, *pub("grid/#")),
        "policy dead-letter-exchange",
        json=POLICY,
    ),
    http(
        "alternate of a policy",
        "PUT",
        AS_POLICY,
        (("UPDATE", "Topic:*"), ("SUB", "Topic:*"), *pub("grid/#")),
        "policy alternate-exchange",
        json={"pattern": "^nothing$", "definition": {"alternate-exchange": "grid"}, "apply-to": "exchanges"},
    ),
    http("a queue", "POST", "/api/queues/%2F/gq/get", (("SUB", "Group:gq"),), json={}),
    http("a queue with a dot", "POST", "/api/queues/%2F/gq%2Ex/get", (("SUB", "Group:gq%2Ex"),), json={}),
]
ROWS = [*PUBLISHING, *READING, *OF_RABBITMQ]
