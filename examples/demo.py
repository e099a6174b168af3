"""Fifty devices, a service, three consumers, a killed server, and nothing lost.

Run it with `make demo`.  Devices publish telemetry as JSON over MQTT at QoS 1, a service posts CloudEvents over HTTP,
and three consumers of one group share all of it over HTTP, message by message.  In the middle the server gets SIGKILL
and is started again on the same ports and data.  A message counts as confirmed when its producer was told so; one that
was not confirmed is sent again, so that it may arrive twice.  The exit code is 0 only if nothing confirmed was lost.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiomqtt
import httpx2
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

DEVICES: Final = 50
FAULTY: Final = 5
MESSAGES_OF_A_DEVICE: Final = 40
EVENTS_OF_THE_SERVICE: Final = 200
CONSUMERS: Final = ("anna", "bela", "carl")
TOPIC: Final = "factory"
GROUP: Final = "workers"
PUBLISH_SECONDS: Final = 10.0
KILL_AFTER: Final = 0.5
"""Share of the confirmed messages after which the server is killed."""
INVISIBLE_SECONDS: Final = 3
GIVE_UP_SECONDS: Final = 20.0
"""Without anything new for so long, what is missing counts as lost."""
BROKEN = (OSError, httpx2.HTTPError, aiomqtt.MqttError)

console = Console()


@dataclass(slots=True)
class Ledger:
    """The events sent, confirmed and received, with their senders and receivers."""

    sent: Counter[str] = field(default_factory=Counter)
    resent: int = 0
    confirmed: dict[str, str] = field(default_factory=dict)
    received: Counter[str] = field(default_factory=Counter)
    by_consumer: dict[str, Counter[str]] = field(default_factory=dict)
    faults_seen: int = 0
    done: bool = False

    @property
    def expected(self) -> int:
        return DEVICES * MESSAGES_OF_A_DEVICE + EVENTS_OF_THE_SERVICE

    @property
    def lost(self) -> set[str]:
        return self.confirmed.keys() - self.received.keys()

    @property
    def duplicates(self) -> int:
        return self.received.total() - len(self.received)


class Server:
    """`entrepot serve` on ports that stay the same when it is started again."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        """`settings`: others than the defaults, by name."""
        self._directory, self._settings = directory, dict(settings or {})
        self._ports: dict[str, int] = {}
        self._process: asyncio.subprocess.Process | None = None

    @property
    def mqtt_port(self) -> int:
        return self._ports["mqtt"]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._ports['http']}"

    async def start(self) -> float:
        """Start and wait until it is ready; returns how long that took."""
        begun = time.monotonic()
        ready = self._directory / "ready.json"
        ready.unlink(missing_ok=True)
        command = [
            str(Path(sys.executable).with_name("entrepot")),
            "serve",
            "--data-dir",
            str(self._directory / "data"),
        ]
        command += ["--free-ports", "--ready-file", str(ready), "--set", "log.level=error"]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        for door, port in self._ports.items():
            command += [f"--{door}-port", str(port)]
        quiet = asyncio.subprocess.DEVNULL
        self._process = await asyncio.create_subprocess_exec(*command, stdin=quiet, stdout=quiet)
        while not ready.exists():
            if self._process.returncode is not None or time.monotonic() - begun > 30:
                raise RuntimeError("the server did not start")
            await asyncio.sleep(0.05)
        self._ports = {door: int(where.rpartition(":")[2]) for door, where in json.loads(ready.read_bytes()).items()}
        return time.monotonic() - begun

    async def kill(self) -> None:
        """As a power cut would, for the process."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()


# -- producers -------------------------------------------------------------------------------------------------------


def telemetry(device: int, number: int) -> dict[str, Any]:
    """One reading; a faulty device's sensor says what cannot be."""
    reading: dict[str, Any] = {
        "id": f"device{device:02d}-{number}",
        "temperature": round(random.gauss(21, 2), 2),
        "humidity": round(random.uniform(35, 60), 1),
        "battery": round(max(0.05, 1 - number / MESSAGES_OF_A_DEVICE * random.random()), 2),
    }
    if device < FAULTY and random.random() < 0.3:
        reading |= {"temperature": -273.0, "fault": "sensor"}
    return reading


async def device(number: int, server: Server, ledger: Ledger) -> None:
    """Publish readings one after the other; after a broken connection go on with the one that was not confirmed."""
    pending = [telemetry(number, step) for step in range(MESSAGES_OF_A_DEVICE)]
    pause = PUBLISH_SECONDS / MESSAGES_OF_A_DEVICE
    topic = f"{TOPIC}/line{number % 5}/device{number:02d}"
    await asyncio.sleep(random.random() * pause)
    was_tried = False
    while pending:
        try:
            async with aiomqtt.Client("127.0.0.1", server.mqtt_port, identifier=f"device{number:02d}") as client:
                while pending:
                    key = pending[0]["id"]
                    ledger.resent += was_tried
                    ledger.sent["devices"] += not was_tried
                    was_tried = True
                    await client.publish(topic, json.dumps(pending[0]), qos=1, timeout=5)
                    ledger.confirmed[key] = "devices"
                    del pending[0]
                    was_tried = False
                    await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        except BROKEN:
            await asyncio.sleep(random.uniform(0.2, 0.5))


async def service(server: Server, ledger: Ledger) -> None:
    """Post CloudEvents in structured mode; the same id again where no answer came."""
    async with httpx2.AsyncClient(base_url=server.url, timeout=5) as client:
        for number in range(EVENTS_OF_THE_SERVICE):
            event = {
                "specversion": "1.0",
                "id": f"order-{number}",
                "source": "/demo/orders",
                "type": "dev.entrepot.demo.order",
                "subject": "orders",
                "datacontenttype": "application/json",
                "data": {"id": f"order-{number}", "pieces": random.randint(1, 20)},
            }
            ledger.sent["service"] += 1
            while not await posted(client, event):
                ledger.resent += 1
                await asyncio.sleep(0.3)
            ledger.confirmed[f"order-{number}"] = "service"
            await asyncio.sleep(PUBLISH_SECONDS / EVENTS_OF_THE_SERVICE)


async def posted(client: httpx2.AsyncClient, event: dict[str, Any]) -> bool:
    """True if the server said that it has the event."""
    try:
        headers = {"content-type": "application/cloudevents+json"}
        answer = await client.post(f"/topics/{TOPIC}:publish", content=json.dumps(event), headers=headers)
    except BROKEN:
        return False
    return answer.status_code == 200


# -- consumers -------------------------------------------------------------------------------------------------------


async def consumer(name: str, server: Server, ledger: Ledger) -> None:
    """Receive, work, acknowledge; what could not be acknowledged comes again, to whoever asks first."""
    mine = ledger.by_consumer[name] = Counter()
    path = f"/topics/{TOPIC}/eventsubscriptions/{GROUP}"
    async with httpx2.AsyncClient(base_url=server.url, timeout=10) as client:
        while not ledger.done:
            try:
                answer = await client.post(f"{path}:receive?maxEvents=20&maxWaitTime=1")
                answer.raise_for_status()
                found = answer.json()["value"]
                if not found:
                    continue
                for item in found:
                    data = data_of(item["event"])
                    mine[data["id"]] += 1
                    ledger.received[data["id"]] += 1
                    ledger.faults_seen += "fault" in data
                await asyncio.sleep(0.02)  # the work
                tokens = [item["brokerProperties"]["lockToken"] for item in found]
                answer = await client.post(f"{path}:acknowledge", json={"lockTokens": tokens})
                answer.raise_for_status()
            except BROKEN:
                await asyncio.sleep(0.3)  # was it acknowledged?  If not, it comes again, and counts as a duplicate


def data_of(event: dict[str, Any]) -> dict[str, Any]:
    """The data of an event, whichever way JSON carries it."""
    if "data_base64" in event:
        found: dict[str, Any] = json.loads(base64.b64decode(event["data_base64"]))
        return found
    data = event["data"]
    return json.loads(data) if isinstance(data, str) else data


# -- the story -------------------------------------------------------------------------------------------------------


async def show_progress(ledger: Ledger) -> None:
    """Bars on a terminal, a line every two seconds elsewhere."""
    if not console.is_terminal:
        while not ledger.done:
            console.print(f"confirmed {len(ledger.confirmed)}, received {len(ledger.received)} of {ledger.expected}")
            await asyncio.sleep(2)
        return
    columns = (TextColumn("{task.description:10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        confirmed = progress.add_task("confirmed", total=ledger.expected)
        received = progress.add_task("received", total=ledger.expected)
        while not ledger.done:
            progress.update(confirmed, completed=len(ledger.confirmed))
            progress.update(received, completed=len(ledger.received))
            await asyncio.sleep(0.1)
        progress.update(confirmed, completed=len(ledger.confirmed))
        progress.update(received, completed=len(ledger.received))


async def kill_in_the_middle(server: Server, ledger: Ledger) -> None:
    while len(ledger.confirmed) < ledger.expected * KILL_AFTER:  # noqa: ASYNC110 - a look now and then will do
        await asyncio.sleep(0.05)
    await server.kill()
    console.print(f"[red]server killed (SIGKILL)[/red] with {len(ledger.confirmed)} messages confirmed")
    await asyncio.sleep(0.5)
    console.print(f"[green]server is back[/green] after {await server.start():.1f} s")


async def until_drained(ledger: Ledger) -> None:
    """Until all that was confirmed is there, or nothing new has come for a long time."""
    count, changed = -1, time.monotonic()
    while ledger.lost and time.monotonic() - changed < GIVE_UP_SECONDS:
        if len(ledger.received) != count:
            count, changed = len(ledger.received), time.monotonic()
        await asyncio.sleep(0.1)
    await asyncio.sleep(INVISIBLE_SECONDS + 1)  # a duplicate that still comes is to be counted


def report(ledger: Ledger, seconds: float) -> Table:
    table = Table(title=f"{seconds:.0f} s, one SIGKILL", title_justify="left", show_header=False)
    for source, count in sorted(ledger.sent.items()):
        table.add_row(f"sent by the {source}", f"{count:,}")
    table.add_row("sent again, unconfirmed", f"{ledger.resent:,}")
    table.add_row("confirmed", f"{len(ledger.confirmed):,}", end_section=True)
    for name, counts in ledger.by_consumer.items():
        table.add_row(f"received by {name}", f"{counts.total():,}")
    table.add_row("faulty readings among them", f"{ledger.faults_seen:,}", end_section=True)
    table.add_row("[bold]lost", f"[bold {'red' if ledger.lost else 'green'}]{len(ledger.lost):,}")
    table.add_row("duplicates", f"{ledger.duplicates:,}")
    table.columns[1].justify = "right"
    return table


async def main() -> int:
    """Returns the exit code."""
    ledger, begun = Ledger(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="entrepot-demo-") as directory:
        server = Server(Path(directory))
        try:
            console.print(f"server started in {await server.start():.1f} s, {DEVICES} devices connect")
            async with httpx2.AsyncClient(base_url=server.url) as client:
                for path, body in (
                    (f"topics/{TOPIC}", {}),
                    (f"groups/{GROUP}", {"invisibleSeconds": INVISIBLE_SECONDS}),
                ):
                    (await client.put(f"/api/v1/{path}", json=body)).raise_for_status()
            watchers = [asyncio.create_task(consumer(name, server, ledger)) for name in CONSUMERS]
            watchers.append(asyncio.create_task(show_progress(ledger)))
            producers = [device(number, server, ledger) for number in range(DEVICES)]
            await asyncio.gather(*producers, service(server, ledger), kill_in_the_middle(server, ledger))
            await until_drained(ledger)
            ledger.done = True
            await asyncio.gather(*watchers)
        finally:
            await server.stop()
    console.print(report(ledger, time.monotonic() - begun))
    return 1 if ledger.lost or len(ledger.confirmed) < ledger.expected else 0


if __name__ == "__main__":
    logging.disable()  # the clients would tell at length that the server has gone
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(asyncio.run(main()))
    os._exit(130)
