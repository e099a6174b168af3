"""Plays a conversation at a server, and masks what no two servers say alike.

The rule of the mask: a name of the play (topic, group, client, message id) stands for its value; the text of a status
is left out; a time, an id, a handle, an address or a place in a queue is `set` where there is one.
"""

from __future__ import annotations

import itertools
import re
import secrets
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any, Final

import grpc
from google.protobuf import json_format

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.conformance.rocketmq.conversation import Conversation, Step
from tests.support.rocketmq.client import GrpcClient

Answer = dict[str, Any]
Prepare = Callable[[Conversation, str, str], None]
"""Makes the topic and the group of a conversation, by their names."""

MASKED: Final = frozenset(
    {
        *("born_timestamp", "store_timestamp", "delivery_timestamp"),
        *("message_id", "receipt_handle", "transaction_id", "recall_handle"),
        *("born_host", "store_host", "host", "port", "broker"),
        *("offset", "queue_id", "queue_offset", "entrepot_dead_letter_time_ms"),
    }
)
STREAMED: Final = frozenset({"ReceiveMessage", "PullMessage"})
_PATH: Final = re.compile(r"\$(\w+)((?:\.\w+)+)")
_SOON: Final = re.compile(r"\$in (-?\d+)s")


def play(conversation: Conversation, address: str, prepare: Prepare) -> list[Answer]:
    """The masked answers, one for each step."""
    return Play(conversation, address, prepare).answers()


class Play:
    """One conversation under way, with names of its own."""

    def __init__(self, conversation: Conversation, address: str, prepare: Prepare) -> None:
        self._conversation, self._address = conversation, address
        mark = secrets.token_hex(5)
        self._names = {"$topic": f"t-{mark}", "$group": f"g-{mark}", "$client": f"client@{mark}"}
        self._names |= {f"$id{number}": f"01{secrets.token_hex(16).upper()}" for number in range(1, 5)}
        self._said: dict[str, Answer] = {}
        self._streams = ExitStack()
        prepare(conversation, self._names["$topic"], self._names["$group"])

    def answers(self) -> list[Answer]:
        found = []
        client = GrpcClient(self._address, client_id=self._names["$client"])
        client.replaced = dict(self._conversation.headers)
        with client, self._streams:
            for step in self._conversation.steps:
                said = self._asked(client, step)
                if step.name:
                    self._said[step.name] = said
                found.append(self._masked(said))
        return found

    def _asked(self, client: GrpcClient, step: Step) -> Answer:
        for _ in range(step.polls):
            said = self._asked_once(client, step)
            if said.get("messages"):
                break
        return said

    def _asked_once(self, client: GrpcClient, step: Step) -> Answer:
        kind = v2.TelemetryCommand if step.call == "Telemetry" else getattr(v2, f"{step.call}Request")
        question = json_format.ParseDict(self._resolved(step.request), kind())
        try:
            if step.call == "Telemetry":
                return _as_dict(next(self._begun(client, question), v2.TelemetryCommand()))
            if step.call in STREAMED:
                return _gathered(client.stream(step.call, question))
            return _as_dict(client.call(step.call, question))
        except grpc.RpcError as error:
            return {"grpc": error.code().name}  # type: ignore[attr-defined]

    def _begun(self, client: GrpcClient, question: v2.TelemetryCommand) -> Iterator[v2.TelemetryCommand]:
        """Commands on a stream that stays open as long as the conversation, as a client's does."""
        commands: SimpleQueue[v2.TelemetryCommand | None] = SimpleQueue()
        commands.put(question)
        self._streams.callback(commands.put, None)
        return iter(client.telemetry(said=iter(commands.get, None)))

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {self._resolved(key): self._resolved(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._resolved(each) for each in value]
        if isinstance(value, bytes):
            return b64encode(value).decode()
        if not isinstance(value, str) or "$" not in value:
            return value
        if soon := _SOON.fullmatch(value):
            return _rfc3339(time.time() + int(soon[1]))
        if (path := _PATH.fullmatch(value)) is None:
            return self._replaced(value, self._names)
        found: Any = self._said[path[1]]
        for part in path[2].split(".")[1:]:
            try:
                found = found[int(part)] if part.isdecimal() else found[part]
            except (KeyError, IndexError):
                return ""  # the server has not said it: the call goes on without
        return found

    def _masked(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            if name == "status":
                return value.get("code", "none")
            return {
                self._by_name(key): "set" if key in MASKED and self._is_foreign(each) else self._masked(each, key)
                for key, each in sorted(value.items())
            }
        if isinstance(value, list):
            return [self._masked(each, name) for each in value]
        return self._by_name(value)

    def _is_foreign(self, value: Any) -> bool:
        return not isinstance(value, str) or value not in self._names.values()

    def _by_name(self, value: Any) -> Any:
        return self._replaced(value, {each: name for name, each in self._names.items()})

    def _replaced(self, value: Any, names: Mapping[str, str]) -> Any:
        for name, each in names.items() if isinstance(value, str) else ():
            value = value.replace(name, each)
        return value


def _gathered(answers: Iterator[Any]) -> Answer:
    """A stream of answers: the status, the messages, whether it told its time."""
    found: Answer = {"messages": []}
    for answer in itertools.chain(answers):
        said = _as_dict(answer)
        if "message" in said:
            found["messages"].append(said["message"])
        else:
            found |= said
    return found


def _as_dict(message: Any) -> Answer:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def _rfc3339(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
