"""Services that gRPC has for every server: health (grpc.health.v1), and reflection.

They tell nothing but what is published, and if messages are taken; so they need no user.  A connection that asks for
nothing else stays half open, and ends after the time for a login.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from entrepot.gateway.rocketmq.grpc.call import Call, Conversing, Decode, Method, Streamed, Unary
from entrepot.protocols.grpc import health, reflection
from entrepot.protocols.grpc.status import Status

LOOK_SECONDS: Final = 1.0
"""Interval between looks at the health for those who watch it."""
_UNDECODABLE: Final = object()


def common_services(
    service: str,
    files: Iterable[descriptor_pb2.FileDescriptorProto],
    is_serving: Callable[[], bool],
    is_stopping: Callable[[], bool],
) -> dict[bytes, Method]:
    """Return the methods of both, by their paths.  `service`: the name of the server's own, which `files` describe."""
    return {
        **_health(service, is_serving, is_stopping),
        **_reflection([*files, health.FILE, *reflection.FILES.values()]),
    }


# -- health ------------------------------------------------------------------------------------------------------------


def _health(service: str, is_serving: Callable[[], bool], is_stopping: Callable[[], bool]) -> dict[bytes, Method]:
    known = ("", service, health.SERVICE)

    def status_of(name: str) -> int:
        if name not in known:
            return health.SERVICE_UNKNOWN
        return health.SERVING if is_serving() and not is_stopping() else health.NOT_SERVING

    async def check(question: Any, call: Call) -> Any:
        _check(question, call)
        status = status_of(question.service)
        if status == health.SERVICE_UNKNOWN:
            raise call.abort(Status.NOT_FOUND, "there is no such service")
        return health.Response(status=status)

    async def watch(question: Any, call: Call) -> None:
        _check(question, call)
        told = -1
        while True:
            status = status_of(question.service)
            if status != told:
                await call.write(health.Response(status=status))
                told = status
            if is_stopping():
                return
            await asyncio.sleep(LOOK_SECONDS)

    decode, encode = _decoder(health.Request), health.Response.SerializeToString
    path = f"/{health.SERVICE}/".encode()
    return {path + b"Check": Unary(decode, check, encode), path + b"Watch": Streamed(decode, watch, encode)}


# -- reflection --------------------------------------------------------------------------------------------------------


def _reflection(files: list[descriptor_pb2.FileDescriptorProto]) -> dict[bytes, Method]:
    methods: dict[bytes, Method] = {}
    for package in reflection.PACKAGES:
        made = reflection.Reflection(package, files)
        path = f"/{package}.ServerReflection/{reflection.METHOD}".encode()
        methods[path] = Conversing(_decoder(made.request), _answering(made), made.response.SerializeToString)
    return methods


def _answering(made: reflection.Reflection) -> Callable[[Call], AsyncGenerator[Any, None]]:
    async def answers(call: Call) -> AsyncGenerator[Any, None]:
        async for question in call:
            _check(question, call)
            yield made.answer(question)

    return answers


def _decoder(kind: Any) -> Decode:
    def decode(data: bytes) -> Any:
        try:
            return kind.FromString(data)
        except DecodeError:
            return _UNDECODABLE

    return decode


def _check(question: Any, call: Call) -> None:
    """End a call whose request is not one."""
    if question is _UNDECODABLE:
        raise call.abort(Status.INVALID_ARGUMENT, "the bytes are not a request of this method")
