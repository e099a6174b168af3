"""MQTT brokers to bridge to, ours and other people's, on free ports, and clients that publish and collect."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties

from entrepot.gateway.clock import SystemClock
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.gateways.thread import GatewayThread
from tests.support.processes.ports import ReservedPort
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


class OtherBroker:
    """The broker at the other end of a bridge; it keeps its port through restarts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._reserved = ReservedPort()
        self.port = self._reserved.number
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)
        if kind is not None:
            print((self.directory / "other.log").read_text(errors="replace")[-4000:])

    def start(self) -> None:
        """Start and wait until it listens."""
        with (self.directory / "other.log").open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=subprocess.STDOUT)
        wait_until(self._listens, "the other broker listens")

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Mosquitto(OtherBroker):
    """Debian's mosquitto; sessions are kept when it is stopped.  `users`: name and password, else anybody may."""

    def __init__(self, directory: Path, lines: Sequence[str] = (), users: dict[str, str] | None = None) -> None:
        if MOSQUITTO is None:
            pytest.skip("mosquitto is not installed")
        super().__init__(directory)
        self._lines = list(lines)
        if users:
            passwords = directory / "passwords"
            passwords.touch(mode=0o600)
            for name, password in users.items():
                subprocess.run(["mosquitto_passwd", "-b", str(passwords), name, password], check=True)
            self._lines += [f"password_file {passwords}"]
        self._lines += [f"allow_anonymous {'false' if users else 'true'}"]

    def command(self) -> list[str]:
        import getpass

        config = self.directory / "mosquitto.conf"
        lines = [
            f"listener {self.port} 127.0.0.1",
            "persistence true",
            f"persistence_location {self.directory}/",
            "max_queued_messages 0",
            "max_inflight_messages 0",
            f"user {getpass.getuser()}",
            *self._lines,
        ]
        config.write_text("\n".join(lines) + "\n")
        assert MOSQUITTO is not None
        return [MOSQUITTO, "-c", str(config)]


class Entrepot(OtherBroker):
    """Another gateway of ours, in a thread; one that `keeps` its messages through a stop is a process."""

    def __init__(
        self,
        directory: Path,
        mqtt: dict[str, Any] | None = None,
        user: str = "",
        password: str = "",
        *,
        keeps: bool = False,
    ) -> None:
        super().__init__(directory)
        self._mqtt = dict(mqtt or {})
        self._settings: dict[str, dict[str, Any]] = {"mqtt": self._mqtt}
        if user:
            cheap = {**CHEAP_HASHES}
            self._settings["security"] = {"initial_admin": user, "initial_admin_password": password, **cheap}
        self._keeps = keeps
        self._running: GatewayThread | ServerProcess | None = None

    def start(self) -> None:
        if self._keeps:
            self._running = ServerProcess(self.directory, {"mqtt.port": str(self.port)})
        else:
            door = "mqtts" if "tls_certificate" in self._mqtt else "mqtt"
            self._running = GatewayThread(self._settings, clock=SystemClock(), fixed={door: self.port})
        self._running.__enter__()

    def stop(self) -> None:
        assert self._running is not None
        assert self._running.stop() == 0
        self._running.__exit__(None, None, None)
        self._running = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            self._running.__exit__(kind, error, trace)


class Amqtt(OtherBroker):
    """amqtt's broker: MQTT 3.1.1."""

    def command(self) -> list[str]:
        config = self.directory / "amqtt.yaml"
        config.write_text(
            "listeners:\n  default:\n    type: tcp\n"
            f"    bind: 127.0.0.1:{self.port}\n"
            "plugins:\n  amqtt.plugins.authentication.AnonymousAuthPlugin:\n    allow_anonymous: true\n"
        )
        return [str(Path(sys.executable).with_name("amqtt")), "-c", str(config)]


class Peer:
    """A client that collects what it subscribes to, publishes with QoS 1, and connects again by itself."""

    def __init__(self, port: int, *filters: str, version: int = 5, **credentials: str) -> None:
        protocol = MQTTProtocolVersion.MQTTv5 if version == 5 else MQTTProtocolVersion.MQTTv311
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, protocol=protocol)
        self.messages: list[paho.MQTTMessage] = []
        self._filters = filters
        self._granted = not filters
        self.paho.on_connect = self._on_connect
        self.paho.on_subscribe = self._on_subscribe
        self.paho.on_message = lambda client, data, message: self.messages.append(message)
        self.paho.reconnect_delay_set(0.1, 0.5)  # type: ignore[arg-type]
        self.paho.max_inflight_messages_set(100)
        if credentials:
            self.paho.username_pw_set(**credentials)
        self.paho.connect("127.0.0.1", port)
        self.paho.loop_start()
        wait_until(lambda: self._granted and self.paho.is_connected(), "the peer is connected")

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def _on_connect(self, client: paho.Client, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        for topic_filter in self._filters:
            client.subscribe(topic_filter, 1)

    def _on_subscribe(self, *_: Any) -> None:
        self._granted = True

    def publish(
        self, name: str, payload: bytes, *, qos: int = 1, retain: bool = False, properties: Properties | None = None
    ) -> paho.MQTTMessageInfo:
        """Publish without waiting."""
        return self.paho.publish(name, payload, qos, retain, properties)

    def publish_numbers(self, name: str, numbers: range) -> list[paho.MQTTMessageInfo]:
        """A message for each number, without waiting."""
        return [self.publish(name, str(number).encode()) for number in numbers]

    @property
    def numbers(self) -> set[int]:
        """What has been collected, of messages that are numbers."""
        return {int(message.payload) for message in self.messages[:]}

    def payloads(self) -> list[tuple[str, bytes]]:
        return [(message.topic, message.payload) for message in self.messages[:]]
