"""The service called by its stubs: what no published client sends."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import grpc

from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.headers import Credentials, headers

SERVICE = "/apache.rocketmq.v2.MessagingService/"
NUMBERS = itertools.count(1)
PATIENCE_SECONDS = 30.0


def resource(name: str, namespace: str = "") -> v2.Resource:
    return v2.Resource(name=name, resource_namespace=namespace)


class GrpcClient:
    """`now_ms` is what signatures are made with, the present by default."""

    def __init__(
        self,
        address: str,
        credentials: Credentials | None = None,
        *,
        client_id: str = "",
        namespace: str = "",
        roots: bytes | None = None,
        now_ms: int | None = None,
        metadata: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        options = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
        if roots is None:
            self.channel = grpc.insecure_channel(address, options)
        else:
            self.channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(roots), options)
        self.client_id = client_id or f"test@{next(NUMBERS)}"
        self._said = credentials or Credentials()
        self._namespace, self._metadata = namespace, metadata
        self._now_ms = int(time.time() * 1000) if now_ms is None else now_ms
        self.replaced: dict[str, str] = {}
        """Headers with another value than a client's usual one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.channel.close()

    def metadata(self) -> tuple[tuple[str, str], ...]:
        if self._metadata is not None:
            return tuple(self._metadata)
        usual = headers(self.client_id, self._said, self._namespace, "5.1", self._now_ms, f"r{next(NUMBERS)}")
        return tuple({**dict(usual), **self.replaced}.items())

    def call(self, name: str, question: Any, seconds: float = PATIENCE_SECONDS) -> Any:
        """The answer of a call that has one."""
        answer = getattr(v2, f"{name}Response")
        ask = self.channel.unary_unary(SERVICE + name, type(question).SerializeToString, answer.FromString)
        return ask(question, timeout=seconds, metadata=self.metadata(), wait_for_ready=True)

    def stream(self, name: str, question: Any, seconds: float = PATIENCE_SECONDS) -> Any:
        """The answers of a call that has several; it can be cancelled."""
        answer = getattr(v2, f"{name}Response")
        ask = self.channel.unary_stream(SERVICE + name, type(question).SerializeToString, answer.FromString)
        return ask(question, timeout=seconds, metadata=self.metadata(), wait_for_ready=True)

    def telemetry(self, *commands: v2.TelemetryCommand, seconds: float = PATIENCE_SECONDS, said: Any = None) -> Any:
        """What is told on a stream on which these were said; or `said`, an iterator that need not end."""
        ask = self.channel.stream_stream(
            SERVICE + "Telemetry", v2.TelemetryCommand.SerializeToString, v2.TelemetryCommand.FromString
        )
        return ask(said or iter(commands), timeout=seconds, metadata=self.metadata(), wait_for_ready=True)

    # -- what is asked often ---------------------------------------------------------------------------------------

    def send(self, *messages: v2.Message) -> v2.SendMessageResponse:
        found: v2.SendMessageResponse = self.call("SendMessage", v2.SendMessageRequest(messages=messages))
        return found

    def message(
        self, topic: str, body: bytes = b"body", properties: dict[str, str] | None = None, **system: Any
    ) -> Any:
        """A message as clients send it."""
        wire = v2.Message(topic=resource(topic, self._namespace), body=body, user_properties=properties or {})
        fields = {"message_id": f"01{next(NUMBERS):032X}", "body_encoding": v2.IDENTITY, "message_type": v2.NORMAL}
        wire.system_properties.CopyFrom(v2.SystemProperties(**{**fields, **system}))
        return wire

    def receive(
        self, topic: str, group: str, count: int = 32, *, wait_ms: int = 0, invisible_ms: int = 30_000, **others: Any
    ) -> list[v2.Message]:
        """The messages.  Raises AssertionError for a refusal."""
        status, messages = self.try_receive(topic, group, count, wait_ms=wait_ms, invisible_ms=invisible_ms, **others)
        assert status.code in (v2.OK, v2.MESSAGE_NOT_FOUND), status
        return messages

    def try_receive(
        self, topic: str, group: str, count: int = 32, *, wait_ms: int = 0, invisible_ms: int = 30_000, **others: Any
    ) -> tuple[v2.Status, list[v2.Message]]:
        question = v2.ReceiveMessageRequest(
            group=resource(group, self._namespace),
            message_queue=v2.MessageQueue(topic=resource(topic, self._namespace), id=-1),
            batch_size=count,
            **others,
        )
        question.long_polling_timeout.FromMilliseconds(wait_ms)
        if not others.get("auto_renew"):
            question.invisible_duration.FromMilliseconds(invisible_ms)
        answers = list(self.stream("ReceiveMessage", question))
        status = next(answer.status for answer in answers if answer.HasField("status"))
        return status, [answer.message for answer in answers if answer.HasField("message")]

    def ack(self, topic: str, group: str, *messages: v2.Message) -> v2.AckMessageResponse:
        entries = [
            v2.AckMessageEntry(
                message_id=message.system_properties.message_id,
                receipt_handle=message.system_properties.receipt_handle,
            )
            for message in messages
        ]
        names = {"topic": resource(topic, self._namespace), "group": resource(group, self._namespace)}
        found: v2.AckMessageResponse = self.call("AckMessage", v2.AckMessageRequest(entries=entries, **names))
        return found
