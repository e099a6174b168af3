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

from tests.support.event_streams import Consumer, consumer_at, source
from tests.support.http_client import http_client
from tests.support.http_load import AWAY_SECONDS, TOPIC, HasDoors
from tests.support.http_pull import payload_of
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
    """A consumer that acknowledges each event.  `doubtful`: events whose acknowledgement has not been answered."""

    def __init__(self, door: HasDoors, group: str) -> None:
        self._path = f"/topics/{TOPIC}/eventsubscriptions/{group}:stream?credit=20"
        self.doubtful: set[str] = set()
        super().__init__(door)

    def _follow(self) -> None:
        with consumer_at(self._door.address("http"), self._path) as it:
            self.connections += 1
            held: dict[str, str] = {}
            while self.is_reading:
                self._take(it, held)

    def _take(self, it: Consumer, held: dict[str, str]) -> None:
        said = it.next(PATIENCE_SECONDS)
        if said["type"] == "dev.entrepot.settled":
            names = {held.pop(token) for token in said["data"]["succeededLockTokens"]}
            self.doubtful -= {name for name in names if self.taken[name] == 1}
        elif "locktoken" in said:
            name = payload_of(said).decode()
            self.taken[name] += 1
            held[said["locktoken"]] = name
            self.doubtful.add(name)
            it.say("acknowledge", lockTokens=[said["locktoken"]])
