"""Readers of events as they come, for long: server-sent events from an exact place on, and a consumer's WebSocket.

A reader whose connection ends makes another: server-sent events go on behind the last event that it has.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import httpx2
from websockets.exceptions import WebSocketException

from tests.support.http.client import http_client
from tests.support.http.event_streams import Consumer, consumer_at, source
from tests.support.http.load import AWAY_SECONDS, TOPIC, HasDoors
from tests.support.http.pull import payload_of
from tests.support.waiting import PATIENCE_SECONDS

_BROKEN = (OSError, AssertionError, httpx2.HTTPError, httpx2.StreamError, WebSocketException)


class StreamReader:
    """A thread that follows the topic at one door.  `ends`: why each of its connections ended."""

    def __init__(self, door: HasDoors) -> None:
        self._door = door
        self.taken: Counter[str] = Counter()
        self.connections = 0
        self.ends: list[str] = []
        self.is_reading = True
        self._close: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self.is_reading:
            try:
                self._follow()
            except _BROKEN as problem:
                self.ends.append(repr(problem))
                time.sleep(AWAY_SECONDS)

    def _follow(self) -> None:
        """One connection, to its end."""
        raise NotImplementedError

    def stop(self) -> None:
        """The thread ends with its next event, or with the test."""
        self.is_reading = False


class EventTail(StreamReader):
    """Server-sent events of the whole topic."""

    def __init__(self, door: HasDoors) -> None:
        self._place = ""
        super().__init__(door)

    def _follow(self) -> None:
        headers = {"last-event-id": self._place} if self._place else None
        with (
            http_client(f"http://{self._door.address('http')}") as client,
            source(client, TOPIC, headers, start="earliest") as live,
        ):
            self.connections += 1
            while self.is_reading:
                event = live.next()
                self._place = live.last_id
                self.taken[payload_of(event).decode()] += 1


class EventConsumer(StreamReader):
    """A consumer that acknowledges each event, and again where it is told of a problem.

    `doubtful`: events whose acknowledgement has not been answered well.
    """

    def __init__(self, door: HasDoors, group: str) -> None:
        self._path = f"/topics/{TOPIC}/eventsubscriptions/{group}:stream?credit=20"
        self.doubtful: set[str] = set()
        self.problems = 0
        self._held: dict[str, str] = {}
        """Events by lock token."""
        self._said: dict[str, str] = {}
        """Lock tokens by the acknowledgement."""
        super().__init__(door)

    def _follow(self) -> None:
        with consumer_at(self._door.address("http"), self._path) as it:
            self.connections += 1
            self._held, self._said = {}, {}
            while self.is_reading:
                self._take(it)

    def _take(self, it: Consumer) -> None:
        said = it.next(PATIENCE_SECONDS)
        if said["type"] == "dev.entrepot.settled":
            names = {self._held.pop(token, "") for token in said["data"]["succeededLockTokens"]}
            self.doubtful -= {name for name in names if self.taken[name] == 1}
        elif said["type"] == "dev.entrepot.problem":
            self.problems += 1
            time.sleep(AWAY_SECONDS)
            if (token := self._said.get(said.get("subject", ""))) in self._held:
                self._acknowledge(it, token)
        elif "locktoken" in said:
            name = payload_of(said).decode()
            self.taken[name] += 1
            self._held[said["locktoken"]] = name
            self.doubtful.add(name)
            self._acknowledge(it, said["locktoken"])

    def _acknowledge(self, it: Consumer, token: str) -> None:
        self._said[it.say("acknowledge", lockTokens=[token])] = token
