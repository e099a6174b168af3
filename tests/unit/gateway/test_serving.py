"""Serving of rows: answers of each kind, headers, clients that go, and streams that fail; without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Annotated, Any

import pytest
import structlog
from msgspec import Meta

from entrepot.domain.access.model import Origin, Principal
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.http.requests.serving import ServedOperations
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import NO_RIGHTS
from entrepot.gateway.operations.row.shapes import (
    Body,
    Checked,
    Created,
    Declared,
    Head,
    LenientBody,
    Pieces,
    PlainName,
    Raw,
)
from entrepot.gateway.operations.row.table import Table
from entrepot.gateway.settings import Settings

THINGS = Noun("things", "/things", "thing")


class Size(Body, frozen=True):
    """A size."""

    size: int


class Loose(LenientBody, frozen=True):
    """A size, loosely."""

    size: int = 0


class Reason(Head, frozen=True):
    reason: Annotated[str, Meta(max_length=64)] = ""


class Things:
    @THINGS.put("/{name}", "putThing", "Put", NO_RIGHTS)
    async def put(self, name: PlainName) -> Declared:
        return Declared(name == "new")

    @THINGS.post("/{name}:bind", "bindThing", "Bind", NO_RIGHTS)
    async def bind(self, name: PlainName, asked: Asked) -> Created[None]:
        asked.answer_headers["location"] = name
        if name == "no":
            raise EntrepotError(Code.BAD_REQUEST, "no")
        return Created(None)

    @THINGS.get("/{name}:check", "checkThing", "Check", NO_RIGHTS)
    async def check(self, name: PlainName) -> Checked:
        return Checked("" if name == "ok" else "it is broken")

    @THINGS.get("/{name}:raw", "rawThing", "Raw", NO_RIGHTS)
    async def raw(self, name: PlainName) -> Raw:
        return Raw(b"x", "", {"allow": "GET"})

    @THINGS.delete("/{name}", "deleteThing", "Delete", NO_RIGHTS)
    async def delete(self, name: PlainName, head: Reason, asked: Asked) -> None:
        asked.answer_headers["reason"] = head.reason

    @THINGS.post("/{name}:size", "sizeThing", "Size", NO_RIGHTS)
    async def size(self, name: PlainName, body: Size) -> int:
        return body.size

    @THINGS.post("/{name}:loose", "looseThing", "Size", NO_RIGHTS)
    async def loose(self, name: PlainName, body: Loose) -> int:
        return body.size

    @THINGS.get("/{name}:stream", "streamThing", "Stream", NO_RIGHTS)
    async def stream(self, name: PlainName, asked: Asked) -> Pieces:
        asked.answer_headers["further"] = "1"
        return Pieces(pieces(), "text/plain", {"own": "1"})


async def pieces() -> AsyncIterator[bytes]:
    yield b"first"
    raise RuntimeError("the stream breaks")


class Allowing:
    def allows(self, *_: object) -> bool:
        return True


class Access:
    """Lets everybody in."""

    security = Allowing()

    async def principal(self, scope: MutableMapping[str, Any]) -> Principal:
        return Principal("ann", Origin.PASSWORD, "")


class Told:
    """The messages that were sent."""

    def __init__(self) -> None:
        self.status, self.headers, self.body = 0, dict[str, str](), b""

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message.get("headers", ())}
        else:
            self.body += message.get("body", b"")


async def ask(method: str, path: str, body: bytes = b"", *headers: tuple[bytes, bytes], goes: bool = False) -> Told:
    access: Any = Access()
    changes: Any = Changes()
    none: Any = None
    own: dict[Noun, object] = {THINGS: Things()}
    settings = Settings.model_validate({"grpc": {"enabled": False}})
    operations = ServedOperations(own, Table(THINGS.operations), none, access, changes, settings)
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
    }
    scope |= {"headers": list(headers), "client": ("127.0.0.1", 1), "asgi": {"spec_version": "2.3"}}
    messages = [{"type": "http.disconnect"}] if goes else [{"type": "http.request", "body": body}]

    async def receive() -> MutableMapping[str, Any]:
        if messages:
            return messages.pop(0)
        await asyncio.Event().wait()
        return {}

    told = Told()
    found = operations.find(scope)
    assert found is not None, path
    await operations.answer(found, scope, receive, told.send)
    return told


class Changes:
    """Notes nothing."""

    def noting(self, scope: Any, send: Any) -> Any:
        return send


@pytest.mark.parametrize(
    ("method", "path", "status", "headers", "body"),
    [
        ("PUT", "/api/v1/things/new", 201, {"content-length": "0"}, b""),
        ("PUT", "/api/v1/things/old", 204, {}, b""),
        ("POST", "/api/v1/things/b:bind", 201, {"location": "b", "content-length": "0"}, b""),
        ("GET", "/api/v1/things/ok:check", 200, {"content-type": "application/json"}, b'{"status":"ok"}'),
        ("GET", "/api/v1/things/x:raw", 200, {"allow": "GET", "content-length": "1"}, b"x"),
        ("DELETE", "/api/v1/things/x", 204, {"reason": ""}, b""),
    ],
)
async def test_answers_of_each_kind(method: str, path: str, status: int, headers: dict[str, str], body: bytes) -> None:
    told = await ask(method, path)
    assert (told.status, told.body) == (status, body)
    assert told.headers.items() >= headers.items()
    assert ("content-length" in told.headers) is (status != 204)


async def test_a_check_that_fails_says_why() -> None:
    told = await ask("GET", "/api/v1/things/x:check")
    assert (told.status, told.body) == (503, b'{"status":"failed","reason":"it is broken"}')


async def test_headers_of_a_handler_go_with_a_problem_too() -> None:
    told = await ask("POST", "/api/v1/things/no:bind")
    assert (told.status, told.headers["location"]) == (400, "no")


async def test_of_a_header_that_comes_twice_the_first_counts() -> None:
    told = await ask("DELETE", "/api/v1/things/x", b"", (b"Reason", b"a"), (b"reason", b"b"))
    assert told.headers["reason"] == "a"


async def test_only_lenient_bodies_take_texts_for_numbers() -> None:
    assert (await ask("POST", "/api/v1/things/x:size", b'{"size":"5"}')).status == 400
    assert (await ask("POST", "/api/v1/things/x:loose", b'{"size":"+5","more":1}')).body == b"5"
    assert (await ask("POST", "/api/v1/things/x:loose")).body == b"0", "an empty body counts as an empty object"
    for bad in (b"[]", b"{", b'{"size":"x"}', b'{"size":null}', b"\xff"):
        assert (await ask("POST", "/api/v1/things/x:loose", bad)).status == 400, bad


async def test_a_client_that_has_gone_is_counted() -> None:
    assert (await ask("POST", "/api/v1/things/x:size", goes=True)).status == 499


async def test_a_stream_that_fails_is_broken_off_and_logged_with_its_path() -> None:
    with structlog.testing.capture_logs() as logs:
        told = await ask("GET", "/api/v1/things/x:stream")
    assert (told.status, told.body, told.headers["own"], told.headers["further"]) == (200, b"first", "1", "1")
    [fault] = [each for each in logs if each["log_level"] == "error"]
    assert (fault["event"], fault["path"]) == ("http request failed", "/api/v1/things/x:stream")
