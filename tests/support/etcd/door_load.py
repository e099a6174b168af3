"""The doors of two gateways at work with all that facts are for: sessions, QoS 2, retained messages, exchanges, users.

Sent messages are numbered, so it is known which were lost, came twice, or were never sent.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import pika  # type: ignore[import-untyped]

from entrepot.protocols.mqtt.packets import Puback, Publish
from tests.support.amqp import load as amqp_load
from tests.support.http.client import http_client
from tests.support.mqtt import load as mqtt_load
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import GatewayProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

ADMIN: Final = ("guest", "guest")
"""The user that AMQP clients log in as by default."""
ADA: Final = ("ada", "known before the loss")
BOB: Final = ("bob", "made during the loss")
PAUSE_SECONDS: Final = 0.02
WINDOW: Final = 2
RETAINED: Final = "state/valve"
STEPS: Final = 60
"""Messages of each publisher that count as going on."""


def put_user(gateway: GatewayProcess, name: str, password: str) -> None:
    """Make a user by REST, as often as it takes."""

    def done() -> bool:
        with http_client(f"http://{gateway.address('http')}", auth=ADMIN) as root:
            return root.put(f"/api/v1/users/{name}", json={"password": password}).is_success

    wait_until(done, f"{name} is made")


def admitted(gateway: GatewayProcess, name: str, password: str) -> bool:
    """True if the user's password is taken by HTTP."""
    with http_client(f"http://{gateway.address('http')}", auth=(name, password)) as client:
        return client.get("/api/v1/topics").status_code != 401


def connects(gateway: GatewayProcess, name: str, password: str) -> bool:
    """True if the user's password is taken by MQTT."""
    with RawClient(gateway.port("mqtt")) as client:
        return client.connect(f"{name}-logs-in", username=name, password=password.encode()).reason == 0


class Retainer:
    """Replaces one retained message by numbers that rise, at one gateway after the other."""

    def __init__(self, gateways: Sequence[GatewayProcess]) -> None:
        self._gateways = itertools.cycle(gateways)
        self.sent = self.confirmed = 0
        self._goes_on = True
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """No more; what is under way is answered."""
        self._goes_on = False
        if self._thread.ident is not None:
            self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "a retained message is not answered"

    def _run(self) -> None:
        while self._goes_on:
            try:
                with RawClient(next(self._gateways).port("mqtt")) as client:
                    assert client.connect("retainer").reason == 0
                    while self._goes_on:
                        self.sent += 1
                        client.say(Publish(RETAINED, b"%d" % self.sent, 1, 1, True))
                        assert client.expect(Puback).reason < 0x80
                        self.confirmed = self.sent
                        time.sleep(PAUSE_SECONDS)
            except mqtt_load.BROKEN:
                time.sleep(mqtt_load.AWAY_SECONDS)


class DoorLoad:
    """`begin`, `goes_on` at any time, `cut`, `end`, then `told`; `stop` at last."""

    def __init__(self, gateways: Sequence[GatewayProcess]) -> None:
        self._gateways = gateways
        self._turns = itertools.cycle(gateways)
        self._wires: dict[str, mqtt_load.Wire] = {}
        self.mqtt = mqtt_load.Threads(self._wire)
        self.once = mqtt_load.Consumer("once", "steps/#", 2)
        self.away = mqtt_load.Consumer("away", "steps/#", 2)
        self._returned = mqtt_load.Threads(lambda client_id: mqtt_load.Wire(gateways[1].port("mqtt"), client_id))
        self._loads: list[mqtt_load.Threads | amqp_load.Load] = [self.mqtt, self._returned]
        self.retainer = Retainer(gateways)

    def begin(self) -> None:
        """Readers first; `away` has a session at the first gateway, and goes."""
        first = mqtt_load.Threads(lambda client_id: mqtt_load.Wire(self._gateways[0].port("mqtt"), client_id))
        first.consume(self.away)
        self.mqtt.consume(self.once)
        wait_until(lambda: self.away.is_ready and self.once.is_ready, "they are subscribed")
        first.stop()
        assert not first.failures and not self.away.taken
        self._declare()
        self.mqtt.publish(
            *(
                mqtt_load.Publisher(name, 2, f"steps/{name}", window=WINDOW, pause_seconds=PAUSE_SECONDS)
                for name in "abcd"
            )
        )
        publisher = amqp_load.Publisher("order", "order.new", "orders", pause_seconds=PAUSE_SECONDS)
        self.amqp = amqp_load.Load(self._amqp, [publisher], [amqp_load.Consumer("orders-all", is_quick=True)])
        self._loads.append(self.amqp)
        self.retainer.begin()

    def _declare(self) -> None:
        with self._amqp() as connection:
            channel = connection.channel()
            channel.exchange_declare("orders", "topic", durable=True)
            channel.queue_declare("orders-all", durable=True)
            channel.queue_bind("orders-all", "orders", "order.#")

    def _wire(self, client_id: str) -> mqtt_load.Wire:
        made = self._wires[client_id] = mqtt_load.Wire(next(self._turns).port("mqtt"), client_id)
        return made

    def _amqp(self) -> pika.BlockingConnection:
        return pika.BlockingConnection(amqp_load.parameters(next(self._turns).port("amqp")))

    def cut(self) -> None:
        """End all connections by MQTT: clients come back, and say again what was not answered."""
        for wire in tuple(self._wires.values()):
            wire.cut()

    def cut_until_repeated(self) -> None:
        """Cut until a publish was said again, with DUP: at most moments some client waits for PUBREC."""

        def done() -> bool:
            if self.repeated > before:
                return True
            if all(each.resumed > resumed[each.name] for each in self.mqtt.publishers):
                resumed.update({each.name: each.resumed for each in self.mqtt.publishers})
                self.cut()
            return False

        before, resumed = self.repeated, {each.name: each.resumed for each in self.mqtt.publishers}
        self.cut()
        wait_until(done, "a publish is said again")

    def _progress(self) -> dict[str, int]:
        return {
            **{each.name: len(each.confirmed) for each in self.mqtt.publishers},
            "once": len(self.once.taken),
            "amqp": len(self.amqp.confirmed),
            "retained": self.retainer.confirmed,
        }

    def goes_on(self) -> None:
        """Wait until each has done STEPS more."""
        before = self._progress()
        wait_until(
            lambda: all(now >= before[who] + STEPS for who, now in self._progress().items()),
            lambda: f"{before} goes on to {self._progress()}",
        )

    def end(self) -> None:
        """End publishing; `away` comes back at the other gateway.  Return once all that was confirmed has come."""
        self.retainer.end()
        self.mqtt.end_producing()
        self.amqp.end_producing()
        self._returned.consume(self.away)
        wait_until(
            lambda: (
                self.mqtt.confirmed <= self.once.taken.keys() & self.away.taken.keys()
                and self.amqp.confirmed <= self.amqp.taken.keys()
            ),
            lambda: f"{self.told()}",
        )
        assert self.away.resumed == 1, "the session of the first gateway is at the second one"

    def told(self) -> dict[str, dict[str, int]]:
        """The figures, by reader."""
        mqtt, amqp = self.mqtt, self.amqp
        return {
            "once": _figures(mqtt.sent, mqtt.confirmed, self.once.taken, set()),
            "away": _figures(mqtt.sent, mqtt.confirmed, self.away.taken, set()),
            "amqp": _figures(amqp.sent, amqp.confirmed, amqp.taken, amqp.unsure),
        }

    @property
    def repeated(self) -> int:
        """Publishes that were said more than once."""
        return sum(len(each.again) for each in self.mqtt.publishers)

    @property
    def failures(self) -> list[BaseException]:
        return [*self.mqtt.failures, *self._returned.failures, *self.amqp.failures]

    def check_retained(self, gateway: GatewayProcess) -> None:
        """The retained message is one that was sent, and no older than the last confirmed one."""
        with RawClient(gateway.port("mqtt")) as client:
            client.connect("looks")
            client.subscribe(RETAINED)
            [kept] = client.expect_deliveries(1)
        assert kept.retain
        sent, confirmed, number = self.retainer.sent, self.retainer.confirmed, int(kept.payload)
        print({"retained": number, "sent": sent, "confirmed": confirmed})
        assert confirmed <= number <= sent

    def stop(self) -> None:
        self.retainer.end()
        for load in self._loads:
            load.stop()


def _figures(sent: set[str], confirmed: set[str], taken: Counter[str], may_repeat: set[str]) -> dict[str, int]:
    return {
        "sent": len(sent),
        "confirmed": len(confirmed),
        "received": len(taken),
        "lost": len(confirmed - taken.keys()),
        "phantom": len(taken.keys() - sent),
        "twice": sum(times > 1 and body not in may_repeat for body, times in taken.items()),
    }
