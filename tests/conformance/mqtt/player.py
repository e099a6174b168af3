"""Plays a case against a server and raises Mismatch at the first step that goes another way."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from scramp import ScramClient  # type: ignore[import-untyped]

from entrepot.protocols.mqtt.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
)
from entrepot.protocols.mqtt.properties import EMPTY, PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.conformance.mqtt import script
from tests.conformance.mqtt.servers import Server
from tests.conformance.mqtt.wire_client import ANSWER_SECONDS, Mismatch, WireClient

_numbers = count(1)

_ECHO: Final = "echo"


def play(case: script.Case, server: Server, patience: float = ANSWER_SECONDS) -> None:
    """Play it to its end, waiting at most `patience` seconds for an answer.  Raises Mismatch, which says the step."""
    player = _Player(server, patience, f"{os.getpid() % 10_000:04d}{next(_numbers) % 10_000:04d}".encode())
    try:
        for number, step in enumerate(case.steps, 1):
            try:
                player.play(step)
            except Mismatch as mismatch:
                raise Mismatch(f"step {number}, {step}: {mismatch}") from None
    finally:
        player.close()


class _Player:
    """The connections of one play, and what was heard under a name."""

    def __init__(self, server: Server, patience: float, unique: bytes) -> None:
        self._server = server
        self._patience = patience
        self._unique = unique
        self._clients: dict[str, WireClient] = {}
        self._all: list[WireClient] = []
        self._packet_ids: dict[str, int] = {}
        self._elected: dict[str, str] = {}
        self._echoes = 0

    def play(self, step: script.Step) -> None:
        _PLAYS[type(step)](self, step)

    def close(self) -> None:
        for client in self._all:
            client.close()

    def _client(self, on: str) -> WireClient:
        return self._clients[self._elected.get(on, on)]

    def dial(self, step: script.Dial) -> None:
        websocket = "" if step.transport == "tcp" else "mqttv3.1" if step.version == 3 else "mqtt"
        port = self._server.port(step.transport)
        client = WireClient(self._server.host, port, step.version, self._unique, websocket)
        if websocket and client.subprotocol != websocket:
            raise Mismatch(f"the WebSocket speaks {client.subprotocol!r}")
        client.patience = self._patience
        self._clients[step.on] = client
        self._all.append(client)

    def say(self, step: script.Say) -> None:
        what = step.what
        if step.of:
            what = dataclasses.replace(what, packet_id=self._packet_ids[step.of])  # type: ignore[type-var,arg-type]
        client = self._client(step.on)
        if isinstance(what, Connect):
            client.version = what.version
        client.say(what)

    def say_frames(self, step: script.SayFrames) -> None:
        for frame in step.frames:
            self._client(step.on).send(frame.replace(script.UNIQUE.encode(), self._unique), step.text)

    def hear(self, step: script.Hear) -> None:
        heard = self._next(step.on)
        self._compare(heard, step)
        if step.name:
            self._packet_ids[step.name] = heard.packet_id  # type: ignore[union-attr]

    def hear_all(self, step: script.HearAll) -> None:
        wanted = list(step.packets)
        while wanted:
            heard = self._next(step.on)
            match = next((one for one in wanted if not _difference(heard, one)), None)
            if match is None:
                raise Mismatch(f"heard {heard}, which is none of {wanted}")
            wanted.remove(match)

    def hear_together(self, step: script.HearTogether) -> None:
        wanted = list(step.packets)
        deadline = time.monotonic() + self._patience
        while wanted and time.monotonic() < deadline:
            self._settle()
            for on in step.on:
                self._hear_until_ping(on, wanted, step)
        if wanted:
            raise Mismatch(f"nobody heard {wanted}")
        others = [on for on in step.on if on != self._elected[step.elects]]
        self._elected[f"not {step.elects}"] = others[0] if others else ""

    def _hear_until_ping(self, on: str, wanted: list[Publish], step: script.HearTogether) -> None:
        """Take out of `wanted` what this connection has heard by now."""
        self._client(on).say(Pingreq())
        while not isinstance(heard := self._next(on), Pingresp):
            match = next((one for one in wanted if not _difference(heard, one)), None)
            if match is None:
                raise Mismatch(f"{on} heard {heard}, which is none of {wanted}")
            wanted.remove(match)
            self._packet_ids[step.name] = heard.packet_id  # type: ignore[union-attr]
            self._elected[step.elects] = on

    def hear_one_of(self, step: script.HearOneOf) -> None:
        ways = [list(way) for way in step.ways]
        while not any(not way for way in ways):
            heard = self._next(step.on)
            left = [way[1:] for way in ways if not _difference(heard, way[0])]
            if not left:
                raise Mismatch(f"heard {heard}, which is not the next of {ways}")
            ways = left

    def quiet(self, step: script.Quiet) -> None:
        self._settle()
        self._client(step.on).say(Pingreq())
        heard = self._next(step.on)
        if not isinstance(heard, Pingresp):
            raise Mismatch(f"heard {heard}")

    def closed(self, step: script.Closed) -> None:
        client = self._client(step.on)
        heard = client.next()
        if step.reasons:
            if heard is None:
                raise Mismatch("closed without a DISCONNECT")
            if not isinstance(heard, Disconnect) or heard.reason not in step.reasons:
                raise Mismatch(f"heard {heard}")
            if PropertyId.SESSION_EXPIRY_INTERVAL in heard.properties:
                raise Mismatch(f"a server's DISCONNECT has no session expiry: {heard}")
            heard = client.next()
        if heard is not None:
            raise Mismatch(f"not closed, but heard {heard}")

    def cut(self, step: script.Cut) -> None:
        self._client(step.on).close()

    def wait(self, step: script.Wait) -> None:
        self._server.wait(step.seconds)  # the specification counts in seconds: nothing to wait for instead

    def authenticate(self, step: script.Authenticate) -> None:
        """SCRAM-SHA-256 in its four messages (4.12): two of ours, each answered."""
        scram = ScramClient(["SCRAM-SHA-256"], step.username, step.password)
        client = self._client(step.on)
        method = step.starts.properties[PropertyId.AUTHENTICATION_METHOD]  # type: ignore[union-attr]

        def with_data(data: str) -> dict[PropertyId, Any]:
            return {PropertyId.AUTHENTICATION_METHOD: method, PropertyId.AUTHENTICATION_DATA: data.encode()}

        first = {**step.starts.properties, **with_data(scram.get_client_first())}  # type: ignore[union-attr]
        client.say(dataclasses.replace(step.starts, properties=first))  # type: ignore[type-var,arg-type]
        asked = self._next(step.on)
        if not isinstance(asked, Auth) or asked.reason != ReasonCode.CONTINUE_AUTHENTICATION:
            raise Mismatch(f"heard {asked} instead of an AUTH that continues")
        if asked.properties.get(PropertyId.AUTHENTICATION_METHOD) != method:
            raise Mismatch(f"another method: {asked}")
        scram.set_server_first(asked.properties[PropertyId.AUTHENTICATION_DATA].decode())
        client.say(Auth(ReasonCode.CONTINUE_AUTHENTICATION, with_data(scram.get_client_final())))
        heard = self._next(step.on)
        self._compare(heard, script.Hear(step.on, step.ends))
        if getattr(heard, "reason", 0) < ReasonCode.UNSPECIFIED_ERROR:
            properties = heard.properties  # type: ignore[union-attr]
            if properties.get(PropertyId.AUTHENTICATION_METHOD) != method:
                raise Mismatch(f"another method: {heard}")
            scram.set_server_final(properties[PropertyId.AUTHENTICATION_DATA].decode())

    def _next(self, on: str) -> Packet:
        heard = self._client(on).next()
        if heard is None:
            raise Mismatch(f"the server closed {on}")
        return heard

    def _settle(self) -> None:
        """A message to a connection of our own, published after all others: what they caused is on its way by then."""
        topic = f"{_ECHO}/{script.UNIQUE}"
        if _ECHO not in self._clients:
            self.dial(script.Dial(_ECHO, 5))
            echo = self._clients[_ECHO]
            echo.say(Connect(script.ID + _ECHO))
            self._expect(echo, Connack)
            echo.say(Subscribe(1, [Subscription(topic)]))
            self._expect(echo, Suback)
        echo = self._clients[_ECHO]
        self._echoes += 1
        echo.say(Publish(topic, b"", 1, self._echoes))
        for _ in range(2):
            self._expect(echo, Puback | Publish)

    @staticmethod
    def _expect(client: WireClient, kind: Any) -> None:
        heard = client.next()
        if not isinstance(heard, kind):
            raise Mismatch(f"the player's own connection heard {heard}")

    def _compare(self, heard: Packet, step: script.Hear) -> None:
        wanted = step.packet
        if step.of:
            wanted = dataclasses.replace(wanted, packet_id=self._packet_ids[step.of])  # type: ignore[type-var,arg-type]
        found = _difference(heard, wanted, step)
        if found:
            raise Mismatch(f"heard {heard}: {found}")


def _difference(heard: Packet, wanted: Packet, step: script.Hear | None = None) -> str:
    """What is not as wanted; empty where all is."""
    if type(heard) is not type(wanted):
        return f"not a {type(wanted).__name__}"
    for field in dataclasses.fields(wanted):
        want, have = getattr(wanted, field.name), getattr(heard, field.name)
        if field.name == "properties" or want == have:
            continue
        if field.name == "packet_id" and isinstance(wanted, Publish) and wanted.qos and not wanted.packet_id:
            continue  # the server chooses, and the decoder refuses 0
        if field.name == "reason" and step is not None and have in step.reasons:
            continue
        if field.name == "reasons" and step is not None and step.reasons and set(have) <= {*want, *step.reasons}:
            continue
        return f"{field.name} is not {want}"
    return _property_difference(heard, wanted, step)


def _property_difference(heard: Packet, wanted: Packet, step: script.Hear | None) -> str:
    have = dict(getattr(heard, "properties", EMPTY))
    want = dict(getattr(wanted, "properties", EMPTY))
    if step is not None:
        for key in step.without:
            if key in have:
                return f"{key.name} is there"
        for key in step.has:
            if key not in have:
                return f"{key.name} is not there"
        for key, (least, most) in step.between.items():
            if not least <= have.pop(key, -1) <= most:
                return f"{key.name} is not within {least} and {most}"
    identifiers = PropertyId.SUBSCRIPTION_IDENTIFIER
    if identifiers in have and identifiers in want:  # in any order (MQTT-3.3.4-4)
        have[identifiers], want[identifiers] = sorted(have[identifiers]), sorted(want[identifiers])
    if isinstance(wanted, Publish):
        return "" if have == want else f"properties are not {want}"
    missing = {key: value for key, value in want.items() if have.get(key) != value}
    return f"properties lack {missing}" if missing else ""


_PLAYS: Final[dict[type, Callable[[_Player, Any], None]]] = {
    script.Dial: _Player.dial,
    script.Say: _Player.say,
    script.SayFrames: _Player.say_frames,
    script.Hear: _Player.hear,
    script.HearAll: _Player.hear_all,
    script.HearTogether: _Player.hear_together,
    script.HearOneOf: _Player.hear_one_of,
    script.Quiet: _Player.quiet,
    script.Closed: _Player.closed,
    script.Cut: _Player.cut,
    script.Wait: _Player.wait,
    script.Authenticate: _Player.authenticate,
}
