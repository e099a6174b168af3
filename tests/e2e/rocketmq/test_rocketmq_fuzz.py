"""Contract row 17 at the RocketMQ door: bytes that are no message, connections that are no gRPC; the server stays."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.e2e.rocketmq.conftest import SETTINGS
from tests.support.cases import cases
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import SERVICE, GrpcClient
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled

CALLS = [method.name for method in v2.DESCRIPTOR.services_by_name["MessagingService"].methods]
ROUNDS = scaled(30, 1000)


@pytest.fixture(scope="module")
def unheard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of its own: elsewhere lines of a kind may be limited, as others caused many of them."""
    with ServerProcess(tmp_path_factory.mktemp("unheard"), SETTINGS) as started:
        yield started


def check(server: ServerProcess) -> None:
    with GrpcClient(server.address("grpc")) as client:
        assert client.send(client.message("alive")).status.code == v2.OK


def ask(client: GrpcClient, name: str, data: bytes) -> None:
    """Call with these bytes as the request, and read all answers."""
    method = v2.DESCRIPTOR.services_by_name["MessagingService"].methods_by_name[name]
    asked: dict[str, Any] = {"timeout": 3, "metadata": client.metadata()}
    if method.client_streaming:
        list(client.channel.stream_stream(SERVICE + name, None, None)(iter([data]), **asked))
    elif method.server_streaming:
        list(client.channel.unary_stream(SERVICE + name, None, None)(data, **asked))
    else:
        client.channel.unary_unary(SERVICE + name, None, None)(data, **asked)


@pytest.mark.scaled
@pytest.mark.timeout(600)
@cases("name", CALLS)
def test_arbitrary_bytes_in_every_call(server: ServerProcess, name: str) -> None:
    rng, refused = seeded(name), set()
    with GrpcClient(server.address("grpc")) as client:
        for _ in range(ROUNDS):
            data = rng.randbytes(rng.randrange(40))
            if rng.random() < 0.7:
                data = _mutated(rng, name)
            try:
                ask(client, name, data)
            except grpc.RpcError as error:
                refused.add(error.code())  # type: ignore[attr-defined]
    tell(f"arbitrary bytes in {name}", messages=ROUNDS)
    assert refused <= {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.DEADLINE_EXCEEDED}
    check(server)
    for said in ("a call of a RocketMQ client failed", "work of the RocketMQ door failed", "Traceback"):
        assert said not in server.log_text(), server.log_text()[-3000:]


@cases("name", CALLS)
def test_a_request_that_cannot_be_decoded_is_one_line_and_a_status(unheard: ServerProcess, name: str) -> None:
    before = unheard.log_text()
    with GrpcClient(unheard.address("grpc")) as client, pytest.raises(grpc.RpcError) as raised:
        ask(client, name, b"\xff\xff")
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert raised.value.details() == f"the bytes are not a request of {name}"  # type: ignore[attr-defined]
    lines = wait_until(lambda: unheard.log_text()[len(before) :].splitlines(), "the line")
    assert [line for line in lines if "cannot be decoded" in line and f"call={name}" in line] == lines
    assert len(lines) == 1


def _mutated(rng: random.Random, name: str) -> bytes:
    """A message of the right type with arbitrary fields."""
    kind = v2.TelemetryCommand if name == "Telemetry" else getattr(v2, f"{name}Request")
    message = kind()
    _fill(rng, message, 0)
    data = bytearray(message.SerializeToString())
    if data and rng.random() < 0.3:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _fill(rng: random.Random, message, depth: int) -> None:  # type: ignore[no-untyped-def]
    texts = ["", "t", "g", "a" * 200, "%DLQ%x", "a/b", "*", "\x00", "é", "entrepot_more", "[[", "AQAAAA"]
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.4 or depth > 4:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(message, field.name)[rng.choice(texts)] = rng.choice(texts)
        elif field.message_type is not None:
            target = getattr(message, field.name)
            _fill(rng, target.add() if field.is_repeated else target, depth + 1)
        else:
            value = {
                field.CPPTYPE_STRING: rng.choice(texts) if field.type == field.TYPE_STRING else rng.randbytes(9),
                field.CPPTYPE_BOOL: True,
                field.CPPTYPE_ENUM: rng.randrange(8),
                field.CPPTYPE_FLOAT: 1.5,
            }.get(field.cpp_type, rng.choice([0, 1, -1, 3, 2**31 - 1, -(2**31)]))
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)


def test_connections_that_are_no_grpc(server: ServerProcess) -> None:
    rng = seeded()
    port = server.port("grpc")
    opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for data in (b"", b"\x00", b"GET / HTTP/1.1\r\n\r\n", opening, opening + rng.randbytes(500), rng.randbytes(5000)):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(data)
    check(server)


def test_a_request_that_is_too_large(server: ServerProcess) -> None:
    with GrpcClient(server.address("grpc")) as client:
        with pytest.raises(grpc.RpcError) as raised:
            client.send(client.message("t", b"x" * (33 * 1024 * 1024)))
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # type: ignore[attr-defined]
    check(server)
