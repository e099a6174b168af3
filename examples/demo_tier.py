"""Devices publish, their messages go cold into a folder, and an MQTT client and DuckDB read the very same files.

Run it with `make demo-tier`.  A folder stands for the object store.  The broker has messages on its disk for a second:
what a client replays over MQTT comes out of the folder.  The exit code is 0 only if both have every message.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import aiomqtt
import duckdb
import httpx2
from demo import Server

DEVICES: Final = 20
MESSAGES_OF_A_DEVICE: Final = 500
TOPIC: Final = "factory"
GIVE_UP_SECONDS: Final = 60.0


async def publish(server: Server, device: int) -> None:
    """The readings of one device; each is confirmed."""
    async with aiomqtt.Client("127.0.0.1", server.mqtt_port, identifier=f"device{device}") as client:
        for number in range(MESSAGES_OF_A_DEVICE):
            reading = {"device": device, "number": number, "temperature": 20 + (number * 7 + device) % 50 / 10}
            await client.publish(f"{TOPIC}/device{device:02d}/temp", json.dumps(reading), qos=1)


async def until_cold(client: httpx2.AsyncClient, command: list[str]) -> int:
    """Wait until all is in the folder and nothing is on the broker's disk; returns the segments."""
    expected, end = DEVICES * MESSAGES_OF_A_DEVICE, time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < end:
        await asyncio.sleep(0.5)
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        told, _ = await process.communicate()
        tables: list[dict[str, Any]] = json.loads(told or b"[]") if process.returncode == 0 else []
        queues = [queue for table in tables for queue in table["queues"]]
        if sum(queue["nextOffset"] - queue["firstOffset"] for queue in queues) == expected:
            return sum(table["segments"] for table in tables)
    raise RuntimeError("the messages did not go cold")


async def replay(server: Server) -> set[tuple[int, int]]:
    """All messages from the beginning, by MQTT."""
    found: set[tuple[int, int]] = set()
    async with aiomqtt.Client("127.0.0.1", server.mqtt_port, identifier="reader") as client:
        await client.subscribe(f"$replay/earliest/{TOPIC}/#", qos=1)
        async with asyncio.timeout(GIVE_UP_SECONDS):
            async for message in client.messages:
                reading = json.loads(bytes(message.payload))  # type: ignore[arg-type]
                found.add((reading["device"], reading["number"]))
                if len(found) == DEVICES * MESSAGES_OF_A_DEVICE:
                    return found
    return found


def count_in_duckdb(cold: Path) -> set[tuple[int, int]]:
    """The same out of the files, by SQL."""
    files = [str(path) for path in cold.rglob("*.parquet")]
    rows = duckdb.sql(
        "select cast(decode(body)::json ->> 'device' as int), cast(decode(body)::json ->> 'number' as int) "
        f"from read_parquet({files})"
    ).fetchall()
    print("  warmest devices, by SQL over the same files:")
    print(
        duckdb.sql(
            "select sub_topic, round(avg(cast(decode(body)::json ->> 'temperature' as double)), 2) as mean, count(*) "
            f"from read_parquet({files}) group by all order by mean desc limit 3"
        )
    )
    return set(rows)


async def main() -> int:
    with tempfile.TemporaryDirectory(prefix="entrepot-tier-demo-") as made:
        cold = Path(made) / "cold"
        server = Server(
            Path(made),
            {"tier.url": cold.as_uri(), "tier.max_age_seconds": "1", "store.retention_interval_seconds": "0.5"},
        )
        print(f"A server with a folder as its object store is up after {await server.start():.1f} s.")
        try:
            async with httpx2.AsyncClient(base_url=server.url) as client:
                topic = {"queues": 4, "retentionSeconds": 1, "tierSeconds": 365 * 86_400}
                (await client.put(f"/api/v1/topics/{TOPIC}", json=topic)).raise_for_status()
                begun = time.monotonic()
                await asyncio.gather(*(publish(server, device) for device in range(DEVICES)))
                count = DEVICES * MESSAGES_OF_A_DEVICE
                print(f"{DEVICES} devices published {count} messages in {time.monotonic() - begun:.1f} s.")
                entrepot = str(Path(sys.executable).with_name("entrepot"))
                segments = await until_cold(client, [entrepot, "tier", "show", "--url", cold.as_uri(), "--json"])
                print(f"All of them are cold: {segments} segments of a Delta table under {cold}.")
            replayed = await replay(server)
            read = count_in_duckdb(cold)
        finally:
            await server.stop()
    print(f"{len(replayed & read)} of {count} messages are equal in MQTT's replay and in DuckDB.")
    return 0 if replayed == read and len(read) == count else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
