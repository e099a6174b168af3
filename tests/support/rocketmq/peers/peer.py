"""A published client in a process of its own, as the tests use it."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import tempfile
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.processes.node_host import PEERS
from tests.support.rocketmq.peers.hosts import HOSTS, environment_of

ANSWER_SECONDS = 60.0
EVERYTHING = ("tag", "*")


class RefusedError(Exception):
    """What the client raised; `code` is the status it was given, if it says."""

    def __init__(self, text: str, code: int | None) -> None:
        super().__init__(text)
        self.code = code


class NotInClientError(Exception):
    """The client has nothing that does this."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message as the client shows it.  `token` names it to the host."""

    token: int
    body: bytes
    topic: str
    tag: str
    keys: list[str]
    properties: dict[str, str]
    group: str
    lite: str
    id: str
    attempt: int
    corrupted: bool


def _received(said: dict[str, Any]) -> Received:
    return Received(**{**said, "body": base64.b64decode(said["body"])})


class RocketMqPeer:
    """`pushed` has what push consumers were handed, by their handle, in order; `done` the ids that they finished;
    `checked` the ids of transactions that the producer was asked about.  `others`: of the connection, as a host reads
    them; with `as_published` a client keeps all its defaults."""

    def __init__(self, endpoints: str, language: str = "python", **others: Any) -> None:
        self.endpoints, self._language, self._others = endpoints, language, others
        self.pushed: dict[int, list[Received]] = {}
        self.done: dict[int, list[str]] = {}
        self.checked: list[str] = []
        self._answers: dict[int, Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._writing = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        host = HOSTS[self._language]
        if absent := host.absent():
            pytest.skip(absent)
        self._home = tempfile.TemporaryDirectory(prefix="rocketmq-client", ignore_cleanup_errors=True)
        home = Path(self._home.name)
        said = json.dumps({"endpoints": self.endpoints, **self._others})
        python = self._language == "python"
        with (home / "errors").open("wb") as errors:
            self._process = subprocess.Popen(
                [*host.command(home), said],
                cwd=None if python else PEERS,
                env=None if python else environment_of(home),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL, as a crash of the application."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._home.cleanup()

    def errors_text(self) -> str:
        """The end of what it wrote to its standard error."""
        return (Path(self._home.name) / "errors").read_text(errors="replace")[-2000:]

    def begin(self, verb: str, **given: Any) -> Future[Any]:
        """Ask, without waiting for the answer."""
        assert self._process is not None and self._process.stdin is not None
        number, answer = next(self._numbers), Future[Any]()
        self._answers[number] = answer
        with self._writing:
            self._process.stdin.write(json.dumps([number, verb, given]) + "\n")
            self._process.stdin.flush()
        return answer

    def ask(self, verb: str, **given: Any) -> Any:
        """What the client answers.  Raises RefusedError, and NotInClientError."""
        return self.begin(verb, **given).result(ANSWER_SECONDS)

    # -- verbs -------------------------------------------------------------------------------------------------------

    def producer(self, *topics: str, resolution: str = "unknown") -> int:
        found: int = self.ask("producer", topics=topics, resolution=resolution)
        return found

    def send(self, producer: int, topic: str, body: bytes, **others: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.ask(
            "send", client=producer, topic=topic, body=base64.b64encode(body).decode(), **others
        )
        return found

    def simple(self, group: str, topic: str, wanted: tuple[str, str] = EVERYTHING, wait: int = 5) -> int:
        found: int = self.ask("simple", group=group, subscriptions={topic: wanted}, wait=wait)
        return found

    def push(self, group: str, topic: str, wanted: tuple[str, str] = EVERYTHING, **others: Any) -> int:
        found: int = self.ask("push", group=group, subscriptions={topic: wanted}, **others)
        self.pushed.setdefault(found, [])
        self.done.setdefault(found, [])
        return found

    def lite_push(self, group: str, topic: str, lite_topics: list[str]) -> int:
        found: int = self.ask("lite_push", group=group, topic=topic, lite_topics=lite_topics)
        self.pushed.setdefault(found, [])
        self.done.setdefault(found, [])
        return found

    def receive(self, consumer: int, count: int = 32, invisible: int = 30) -> list[Received]:
        return [_received(said) for said in self.ask("receive", client=consumer, count=count, invisible=invisible)]

    def take(self, consumer: int, count: int, invisible: int = 30) -> list[Received]:
        """Receive and acknowledge until there are so many."""
        found: list[Received] = []
        for _ in range(20):
            for message in self.receive(consumer, 32, invisible):
                found.append(message)
                self.ack(consumer, message)
            if len(found) >= count:
                return found
        raise AssertionError(f"only {len(found)} of {count} messages came")

    def ack(self, consumer: int, message: Received) -> None:
        self.ask("ack", client=consumer, token=message.token)

    def change(self, consumer: int, message: Received, seconds: int) -> None:
        self.ask("change", client=consumer, token=message.token, seconds=seconds)

    def shutdown(self, client: int) -> None:
        self.ask("shutdown", client=client)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                continue  # the client's own chatter
            said = json.loads(line)
            if "pushed" in said:
                if "message" in said:
                    self.pushed.setdefault(said["pushed"], []).append(_received(said["message"]))
                else:
                    self.done.setdefault(said["pushed"], []).append(said["done"])
            elif "checked" in said:
                self.checked.append(said["checked"])
            elif said.get("missing"):
                self._answers.pop(said["answer"]).set_exception(NotInClientError(said["error"]))
            elif "error" in said:
                self._answers.pop(said["answer"]).set_exception(RefusedError(said["error"], said["code"]))
            else:
                self._answers.pop(said["answer"]).set_result(said["result"])
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(AssertionError("the client's process has ended"))
