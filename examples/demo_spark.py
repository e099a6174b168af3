"""Five hundred devices, a table, a job that is killed, and the reckoning.

Run it with `make demo-spark`.  Devices publish readings over MQTT at QoS 1, and with them what goes wrong in the field:
readings that are lost before they are sent, that are sent twice, that are not JSON, that come long after.  `entrepot
ingest` puts them into a Delta table meanwhile, and is killed in the middle, again and again.  At the end what was
published is compared with what the tables have, and the report is written.  The exit code is 0 only if it all agrees.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiomqtt
import orjson
from deltalake import DeltaTable
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

DEVICES: Final = 500
READINGS: Final = 60
STEP_MS: Final = 5000
"""Between two readings of a device, in its own time."""
START_MS: Final = 1_790_000_000_000
LOST: Final = 0.01
TWICE: Final = 0.01
BAD: Final = 0.005
HELD: Final = 0.004
"""Shares of readings that are lost, sent twice, no JSON, held back until the end."""
KILLS: Final = 2
TOPIC: Final = "factory"
START_SECONDS: Final = 60.0

WAIT_LINE_SECONDS: Final = 5.0
LINE_EVERY: Final = 5
"""Rounds between two lines of progress, where there is no terminal for a bar."""

console = Console()
begun = time.monotonic()


def tell(text: str) -> None:
    """A line that says when, so that whoever waits sees that it goes on."""
    console.print(f"  {time.monotonic() - begun:3.0f} s  {text}", highlight=False)


@dataclass
class Planted:
    """The readings sent, by their faults: (device, number) of each."""

    good: set[tuple[str, int]] = field(default_factory=set)
    lost: set[tuple[str, int]] = field(default_factory=set)
    held: set[tuple[str, int]] = field(default_factory=set)
    twice: int = 0
    bad: int = 0
    published: int = 0


def reading(device: str, number: int) -> bytes:
    """A reading as the device sends it; one of a hundred devices has a sensor that jumps."""
    chance = random.Random(f"{device}/{number}")
    value = 20 + chance.gauss(0, 0.5)
    if device.endswith("42") and number == 45:
        value = 400.0
    return orjson.dumps(
        {
            "device": device,
            "seq": number,
            "ts": START_MS + number * STEP_MS,
            "temperature": round(value, 3),
            "battery": {"volt": round(3.7 - number / 500, 3)},
        }
    )


class Device:
    """One MQTT connection that publishes a reading at a time."""

    def __init__(self, name: str, port: int, planted: Planted, seed: int) -> None:
        self._client = aiomqtt.Client("127.0.0.1", port, identifier=name)
        self._name, self._planted, self._random = name, planted, random.Random(f"{seed}/{name}")

    async def __aenter__(self) -> Device:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._client.__aexit__(*error)

    async def send(self, number: int) -> None:
        """The reading, and what befalls it."""
        key, chance, planted = (self._name, number), self._random.random(), self._planted
        if number in (0, READINGS - 1):
            chance = 1.0  # the first and the last come: what is between them can be missed
        if chance < LOST:
            planted.lost.add(key)
        elif chance < LOST + BAD:
            planted.lost.add(key)
            planted.bad += 1
            await self.publish(b'{"device": "' + self._name.encode() + b'", "se')
        elif chance < LOST + BAD + HELD and number < READINGS // 2:
            planted.held.add(key)
        else:
            planted.good.add(key)
            await self.publish(reading(self._name, number))
            if chance < LOST + BAD + HELD + TWICE:
                planted.twice += 1
                await self.publish(reading(self._name, number))

    async def publish(self, body: bytes) -> None:
        """Until it is confirmed."""
        await self._client.publish(f"{TOPIC}/{self._name}/telemetry", body, qos=1)
        self._planted.published += 1


class Ingest:
    """The command, in a process group of its own."""

    def __init__(self, broker: str, lake: Path) -> None:
        self.table = lake / "factory"
        self._log = lake / "ingest.log"
        self._command = [
            str(Path(sys.executable).with_name("entrepot")), "ingest", "--topic", TOPIC, "--table", str(self.table),
            "--server", broker, "--watermark", "60s", "--dedupe", "--silence", "2m",
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, trigger: str) -> None:
        """Start it; what it says goes into a file."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "--trigger", trigger], stdout=log, stderr=log, start_new_session=True
            )

    def wait(self) -> None:
        """Until it has ended; raises where it failed."""
        assert self._process is not None
        if self._process.wait():
            raise RuntimeError(f"the job failed:\n{self._log.read_text()[-3000:]}")

    def kill(self) -> None:
        """SIGKILL for the driver, its JVM and its workers."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def rows(self, name: str = "") -> list[dict[str, Any]]:
        """Of the table, or of one beside it."""
        path = f"{self.table}_{name}" if name else str(self.table)
        if not DeltaTable.is_deltatable(path):
            return []
        columns = {"": ["device", "seq", "topic", "queue_id", "queue_offset"], "late": ["device", "seq"]}
        found: list[dict[str, Any]] = DeltaTable(path).to_pyarrow_table(columns=columns.get(name)).to_pylist()
        return found

    def committed(self) -> int:
        """Batches that are done."""
        folder = Path(f"{self.table}_checkpoint", "commits")
        return sum(path.name.isdigit() for path in folder.iterdir()) if folder.is_dir() else 0


@contextlib.contextmanager
def server(directory: Path) -> Iterable[dict[str, str]]:  # type: ignore[misc]
    """`entrepot serve` on free ports."""
    ready = directory / "ready.json"
    command = [str(Path(sys.executable).with_name("entrepot")), "serve", "--free-ports", "--ready-file", str(ready)]
    command += ["--data-dir", str(directory / "data"), "--set", "broker.enabled=true", "--set", "log.level=error"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the server did not start")
            time.sleep(0.05)
        yield json.loads(ready.read_bytes())
    finally:
        process.terminate()
        process.wait()


async def publish(port: int, ingest: Ingest, planted: Planted, seed: int) -> None:
    """All devices, round by round, while the job runs and is killed."""
    names = [f"device-{number:03d}" for number in range(DEVICES)]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    async with contextlib.AsyncExitStack() as stack:
        devices = [await stack.enter_async_context(Device(name, port, planted, seed)) for name in names]
        tell(f"{len(devices)} devices are connected")
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            task = progress.add_task("readings", total=READINGS * DEVICES)
            for number in range(READINGS):
                await asyncio.gather(*(device.send(number) for device in devices))
                progress.advance(task, DEVICES)
                if not console.is_terminal and number % LINE_EVERY == LINE_EVERY - 1:
                    tell(f"{(number + 1) * DEVICES:,} of {READINGS * DEVICES:,} readings are published")
                if number % (READINGS // (KILLS + 1)) == READINGS // (KILLS + 1) - 1 and number < READINGS - 2:
                    before = ingest.committed()
                    await batch_is_done(ingest, before)
                    ingest.kill()
                    tell(f"the job is killed after {ingest.committed()} batches, and started again")
                    ingest.start("1s")
        tell("all is published; the job is killed once more, and reads what is left")
        await batch_is_done(ingest, ingest.committed())
        ingest.kill()
        ingest.start("availableNow")
        await asyncio.to_thread(ingest.wait)
        by_name = dict(zip(names, devices, strict=True))
        tell(f"{len(planted.held)} readings come long after, and the job reads them")
        for name, number in sorted(planted.held):  # long after: the watermark has passed them
            await by_name[name].publish(reading(name, number))


async def batch_is_done(ingest: Ingest, before: int) -> None:
    """Wait for a batch more."""
    deadline = time.monotonic() + START_SECONDS * 2
    told = time.monotonic()
    while ingest.committed() <= before and time.monotonic() < deadline:
        if time.monotonic() - told > WAIT_LINE_SECONDS:
            told = time.monotonic()
            tell(f"the job has done {before} batches, the next one is awaited")
        await asyncio.sleep(0.05)


def reckon(ingest: Ingest, planted: Planted) -> bool:
    """Compare, and show it."""
    good, dead, late, gaps = (ingest.rows(name) for name in ("", "dead_letters", "late", "gaps"))
    places = {(row["topic"], row["queue_id"], row["queue_offset"]) for row in good}
    found = {(row["device"], row["seq"]) for row in good}
    missing = sum(row["missing"] for row in gaps)
    arrived = sum(row["arrived_later"] for row in gaps)
    lines = [
        ("messages published", planted.published, len(good) + len(dead) + len(late) + planted.twice),
        ("readings in the table", len(planted.good), len(good)),
        ("of them twice", 0, len(good) - len(found) + len(good) - len(places)),
        ("sent twice, and left out", planted.twice, planted.published - len(good) - len(dead) - len(late)),
        ("dead letters", planted.bad, len(dead)),
        ("late, and kept aside", len(planted.held), len({(row["device"], row["seq"]) for row in late})),
        ("missing in the gaps", len(planted.lost) + len(planted.held), missing),
        ("of them arrived later", len(planted.held), arrived),
    ]
    table = Table("", "planted", "in the tables", "", title="Reckoning", title_justify="left")
    for what, wanted, there in lines:
        table.add_row(what, f"{wanted:,}", f"{there:,}", "[green]agrees[/]" if wanted == there else "[red]differs[/]")
    console.print(table)
    return all(wanted == there for _, wanted, there in lines) and found == planted.good


def main() -> int:
    """The exit code: 0 when everything agrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--lake", type=Path, help="where the tables lie (a new folder under the temporary ones)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    chosen = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="entrepot-spark-demo-"))
    lake = (chosen.lake or directory / "lake").absolute()
    lake.mkdir(parents=True, exist_ok=True)
    console.print(f"seed {chosen.seed}; {DEVICES} devices, {READINGS} readings each; tables in {lake}", soft_wrap=True)
    planted = Planted()
    with server(directory) as addresses:
        ingest = Ingest(addresses["broker"], lake)
        ingest.start("1s")
        tell("the server runs, Spark starts beside it")
        try:
            asyncio.run(publish(int(addresses["mqtt"].rpartition(":")[2]), ingest, planted, chosen.seed))
            ingest.start("availableNow")
            ingest.wait()
        finally:
            ingest.kill()
        tell("published and kept are compared, and the page of plots is made")
        is_right = reckon(ingest, planted)
        command = [str(Path(sys.executable).with_name("entrepot")), "ingest", "report", "--table", str(ingest.table)]
        page = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        console.print(f"the picture: file://{page}", soft_wrap=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
