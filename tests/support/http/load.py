"""Load by HTTP on doors that come and go: events published and pulled, and a webhook of all that is published."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from tests.support.http.pull import payload_of
from tests.support.http.webhook_receiver import WebhookReceiver
from tests.support.waiting import PATIENCE_SECONDS

TOPIC = "load"
AWAY_SECONDS = 0.02
"""Pause between tries while a door is away."""
_BROKEN = (OSError, ValueError, http.client.HTTPException)


class HasDoors(Protocol):
    """A process with listeners."""

    def address(self, door: str) -> str:
        """Where one of them is."""
        ...


class Webhook:
    """A subscription to all of it, and what its receiver was sent.  `fails`: the receiver does so now and then."""

    def __init__(self, door: HasDoors, *, fails: bool = False, host: str = "127.0.0.1") -> None:
        self.receiver = WebhookReceiver(host=host)
        steps = [{"status": 500} if fails and number % 17 == 3 else {"status": 200} for number in range(2000)]
        self.receiver.behave(TOPIC, steps=steps)
        self._taken: Counter[str] = Counter()
        self._seen = 0
        body = {
            "source": TOPIC,
            "sink": self.receiver.hook(TOPIC),
            "protocol": "HTTP",
            "config": {"initialbackoffseconds": 0.1, "maxbackoffseconds": 1, "maxattempts": 1000, "timeoutseconds": 1},
        }
        connection = http.client.HTTPConnection(door.address("http"), timeout=PATIENCE_SECONDS)
        connection.request("POST", "/subscriptions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
        connection.close()

    @property
    def taken(self) -> Counter[str]:
        bodies = self.receiver.bodies(TOPIC, self._seen)
        self._seen += len(bodies)
        self._taken.update(bodies)
        return self._taken


class HttpLoad:
    """Publishes events, and pulls and acknowledges those of a group, by whichever door answers.

    `doubtful` are those whose acknowledgement was not answered, or refused: they may come twice.  `settled` are those
    whose acknowledgement was confirmed, `again` those of them that came once more.
    """

    def __init__(
        self, doors: Sequence[HasDoors], group: str = "pullers", *, pause_seconds: float = 0.0, series: str = ""
    ) -> None:
        self._doors = itertools.cycle(doors)
        self._group = f"/topics/{TOPIC}/eventsubscriptions/{group}"
        self._pause_seconds = pause_seconds
        self._name = f"http{series}"
        self.sent: set[str] = set()
        self.confirmed: set[str] = set()
        self.taken: Counter[str] = Counter()
        self.doubtful: set[str] = set()
        self.settled: set[str] = set()
        self.again: set[str] = set()
        self.refused = 0
        """Publishes."""
        self.is_producing = self.is_consuming = True
        self.threads = [threading.Thread(target=self._publish, daemon=True)]
        self.threads.append(threading.Thread(target=self._pull, daemon=True))
        for thread in self.threads:
            thread.start()

    def _ask(self, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        connection = http.client.HTTPConnection(next(self._doors).address("http"), timeout=PATIENCE_SECONDS)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200:
                raise OSError(answer.status)
            return content
        finally:
            connection.close()

    def _publish(self) -> None:
        number = 0
        while self.is_producing:
            name = f"{self._name}-{number}"
            number += 1
            self.sent.add(name)
            attributes = {"ce-specversion": "1.0", "ce-id": name, "ce-source": "/test", "ce-type": "t"}
            try:
                headers = {**attributes, "ce-subject": "c", "content-type": "text/plain"}
                self._ask(f"/topics/{TOPIC}:publish", name.encode(), headers)
            except _BROKEN:
                self.refused += 1
                time.sleep(AWAY_SECONDS)
                continue
            self.confirmed.add(name)
            time.sleep(self._pause_seconds)

    def _pull(self) -> None:
        while self.is_consuming:
            try:
                found = json.loads(self._ask(f"{self._group}:receive?maxEvents=100&maxWaitTime=1", b"", {}))["value"]
                held = {each["brokerProperties"]["lockToken"]: payload_of(each["event"]).decode() for each in found}
                self.taken.update(held.values())
                self.again |= self.settled & set(held.values())
                if held:
                    self._acknowledge(held)
            except _BROKEN:
                time.sleep(AWAY_SECONDS)

    def _acknowledge(self, held: dict[str, str]) -> None:
        """Settle events by their lock tokens."""
        self.doubtful.update(set(held.values()) - self.settled)
        body = json.dumps({"lockTokens": list(held)}).encode()
        answer = json.loads(self._ask(f"{self._group}:acknowledge", body, {"content-type": "application/json"}))
        settled = {held[token] for token in answer["succeededLockTokens"]}
        self.settled |= settled
        self.doubtful -= {name for name in settled if self.taken[name] == 1}

    def stop(self) -> None:
        self.is_producing = self.is_consuming = False
        for thread in self.threads:
            thread.join(PATIENCE_SECONDS)

    def end_producing(self) -> None:
        """No more new ones; waits until the last is answered."""
        self.is_producing = False
        self.threads[0].join(PATIENCE_SECONDS)
        assert not self.threads[0].is_alive(), "an event waits for its answer"
