"""Disconnected sessions, with filters that match little of what is published.

One server has them, another has none; both are given the same messages in turns. Then sessions come back one after the
other, each to its hundred matches among all messages published meanwhile. Each session is made as clients make it:
CONNECT, SUBSCRIBE, and gone.
"""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import statistics
import time
from dataclasses import dataclass
from typing import Final

import uvloop
from rich.console import Console

from benchmarks.processes import BenchmarkError, Server, entrepot, gwload, own_resident_bytes
from benchmarks.report import Goal, Report

MATCHES: Final = 100
"""Messages of one sub-topic, and so the matches of a session with one filter."""
TURNS: Final = 5
"""Parts in which both servers get the messages."""
RETURNS: Final = 500
AT_ONCE: Final = 64
SEED: Final = 20
PATIENCE_SECONDS: Final = 20.0
PUBLISHERS: Final = ("--sub-proto", "none", "--pubs", "20", "--window", "100", "--qos", "1", "--size", "200")


@dataclass(frozen=True, slots=True)
class Return:
    """The return of a session: milliseconds from CONNECT to the first PUBLISH and to the last; their number."""

    first_ms: float
    last_ms: float
    messages: int


def run(console: Console, *, quick: bool, messages: int = 1_000_000, sessions: int = 20_000) -> Report:
    """Run a few minutes for a million messages. Quick: a tenth of everything."""
    if quick:
        messages, sessions = messages // 10, sessions // 10
    topics = max(messages // MATCHES, 1)
    title = f"{sessions:,} sessions away, {messages:,} messages of {topics:,} names meanwhile"
    report = Report("sessions", title, "none away")
    with entrepot() as crowded, entrepot() as empty:
        console.print("making sessions", style="dim")
        before = own_resident_bytes(crowded.pid)
        begun = time.perf_counter()
        uvloop.run(_make_sessions(crowded, sessions, topics))
        report.add("made by CONNECT, SUBSCRIBE, DISCONNECT", "sessions/s", sessions / (time.perf_counter() - begun))
        grown = own_resident_bytes(crowded.pid) - before
        report.add("memory of the server for one that is away", "B", grown / sessions)
        console.print("publishing", style="dim")
        _publish(report, crowded, empty, messages, topics)
        console.print("coming back", style="dim")
        _come_back(report, crowded, sessions, RETURNS // 5 if quick else RETURNS)
    report.notes += [
        f"{TURNS} turns each, medians; each session has one filter, which {MATCHES} messages match; seed {SEED}",
        "sessions come back one at a time, to a server that does nothing else",
    ]
    return report


def _publish(report: Report, crowded: Server, empty: Server, messages: int, topics: int) -> None:
    """Publish the same to both, in turns of whole rounds over the names."""
    part = max(messages // TURNS // topics, 1) * topics
    arguments = (*PUBLISHERS, "--topic", "plant/%d/state", "--topics", str(topics), "--count", str(part))
    ours, theirs = [], []
    for _ in range(TURNS):
        ours.append(gwload(crowded, "mqtt", *arguments)["pub_per_cpu_s"])
        theirs.append(gwload(empty, "mqtt", *arguments)["pub_per_cpu_s"])
    report.add(
        "publishing at QoS 1",
        "msg/CPU-s",
        statistics.median(ours),
        statistics.median(theirs),
        judged="ratio",
        goal=Goal(0.95),
    )


def _come_back(report: Report, server: Server, sessions: int, returns: int) -> None:
    chosen = random.Random(SEED).sample(range(sessions), min(returns, sessions))
    gc.disable()  # a pause of ours is not one of the server's
    try:
        found = [_return(server, number) for number in chosen]
    finally:
        gc.enable()
    short = [each for each in found if each.messages != MATCHES]
    if short:
        raise BenchmarkError(f"{len(short)} of {len(found)} sessions had not {MATCHES} messages: {short[:3]}")
    firsts = statistics.quantiles([each.first_ms for each in found], n=100)
    lasts = statistics.quantiles([each.last_ms for each in found], n=100)
    what = f"CONNECT of a session with {MATCHES} matches"
    report.add(f"{what} to the first, p50", "ms", firsts[49], goal=Goal(20, at_most=True))
    report.add(f"{what} to the first, p99", "ms", firsts[98], goal=Goal(20, at_most=True))
    report.add(f"{what} to the last, p50", "ms", lasts[49])
    report.add(f"{what} to the last, p99", "ms", lasts[98])


# -- a client of MQTT 3.1.1, as little as is needed --------------------------------------------------------------------


def _text(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def _packet(first: int, body: bytes) -> bytes:
    assert len(body) < 128, "the length is one byte"
    return bytes((first, len(body))) + body


def _connect(number: int) -> bytes:
    """CONNECT of a session that is kept."""
    return _packet(0x10, _text("MQTT") + b"\x04\x00" + (0).to_bytes(2, "big") + _text(f"away-{number}"))


def _subscribe(number: int, topics: int) -> bytes:
    return _packet(0x82, b"\x00\x01" + _text(f"plant/{number % topics}/state") + b"\x01")


DISCONNECT: Final = b"\xe0\x00"
CONNACK_AND_SUBACK: Final = 4 + 5
CONNACK_RESUMED: Final = b"\x20\x02\x01\x00"


async def _make_sessions(server: Server, sessions: int, topics: int) -> None:
    numbers = iter(range(sessions))

    async def make_some() -> None:
        for number in numbers:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.ports["mqtt"])
            writer.write(_connect(number) + _subscribe(number, topics))
            answer = await reader.readexactly(CONNACK_AND_SUBACK)
            if answer[3] or answer[-1] != 1:
                raise BenchmarkError(f"session {number} was refused: {answer.hex()}")
            writer.write(DISCONNECT)
            await reader.read()  # the server closes
            writer.close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(make_some())


def _return(server: Server, number: int) -> Return:
    """Resume one session and acknowledge its messages."""
    with socket.create_connection(("127.0.0.1", server.ports["mqtt"]), PATIENCE_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.perf_counter()
        connection.sendall(_connect(number))
        data = bytearray()
        first, messages = 0.0, 0
        while messages < MATCHES:
            try:
                more = connection.recv(1 << 16)
            except TimeoutError:
                break
            if not more:
                break
            data += more
            identifiers = take_publishes(data)
            if identifiers and not messages:
                first = time.perf_counter() - begun
            messages += len(identifiers)
            if identifiers:
                connection.sendall(b"".join(b"\x40\x02" + each for each in identifiers))
        last = time.perf_counter() - begun
        connection.sendall(DISCONNECT)
        while connection.recv(1 << 16):  # until the server closes, so that the next one does not wait for this one
            pass
    return Return(first * 1000, last * 1000, messages)


def take_publishes(data: bytearray) -> list[bytes]:
    """Take whole packets off the front; return the packet identifiers of QoS 1 PUBLISHes. Raises BenchmarkError where
    the session was not resumed."""
    identifiers = []
    place = 0
    while len(data) - place >= 2:
        length, shift, at = 0, 0, place + 1
        while at < len(data) and data[at] & 0x80:
            length |= (data[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
        if at >= len(data):
            break
        length |= data[at] << shift
        end = at + 1 + length
        if end > len(data):
            break
        if data[place] >> 4 == 3:
            name_end = at + 3 + int.from_bytes(data[at + 1 : at + 3], "big")
            identifiers.append(bytes(data[name_end : name_end + 2]))
        elif data[place] == CONNACK_RESUMED[0] and data[place:end] != CONNACK_RESUMED:
            raise BenchmarkError(f"a session was not resumed: {data[place:end].hex()}")
        place = end
    del data[:place]
    return identifiers
