"""Contract rows 12 and 13 at the RocketMQ door: timers and transactions through kills."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.e2e.rocketmq.conftest import SETTINGS
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient
from tests.support.seed import seeded
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]
MANY = 300
BATCH = 32
LATE_MS = 1500
"""A tick, and what it takes to deliver what is due."""


def test_many_timers_through_kills(tmp_path: Path) -> None:
    """Never early, not late while the server is there, and what was recalled never comes."""
    rng = seeded()
    with ServerProcess(tmp_path, SETTINGS) as server:
        due: dict[str, int] = {}
        recalled: set[str] = set()
        with GrpcClient(server.address("grpc")) as client:
            start = int(time.time() * 1000) + 1000
            messages = []
            for _ in range(MANY):
                at = start + rng.randrange(9000)
                stamp = {"seconds": at // 1000, "nanos": at % 1000 * 1_000_000}
                message = client.message("timed", b"x", message_type=v2.DELAY, delivery_timestamp=stamp)
                messages.append(message)
                due[message.system_properties.message_id] = at
            entries = client.send(*messages).entries
            assert {entry.status.code for entry in entries} == {v2.OK}
            for entry in rng.sample(list(entries), MANY // 3):
                question = v2.RecallMessageRequest(topic=messages[0].topic, recall_handle=entry.recall_handle)
                status = client.call("RecallMessage", question).status.code
                assert status in (v2.OK, v2.NOT_FOUND)
                if status == v2.OK:
                    recalled.add(entry.message_id)
        away: list[tuple[int, int]] = []
        found: dict[str, int] = {}
        missed_at: dict[str, int] = {}
        """When the first began of the last three receives that had room for a message and ended without it."""
        looked = [0, 0, 0]
        kills = sorted(start + rng.randrange(1000, 8000) for _ in range(2))
        while int(time.time() * 1000) < start + 9000 + LATE_MS or len(found) < MANY - len(recalled):
            assert int(time.time() * 1000) < start + 60_000, f"{len(found)} of {MANY - len(recalled)}"
            if kills and int(time.time() * 1000) >= kills[0]:
                kills.pop(0)
                began = int(time.time() * 1000)
                server.kill()
                server.restart()
                away.append((began, int(time.time() * 1000)))
            with GrpcClient(server.address("grpc")) as client:
                client.send(client.message("other"))  # confirmed: neither the server nor its disk stands still
                began = int(time.time() * 1000)
                messages = client.receive("timed", "readers", BATCH, wait_ms=200, invisible_ms=60_000)
                for message in messages:
                    name, now_ms = message.system_properties.message_id, int(time.time() * 1000)
                    assert name not in found
                    found[name], missed_at[name] = now_ms, looked[0]
                    client.ack("timed", "readers", message)
                if len(messages) < BATCH:
                    looked = [*looked[1:], began]
    tell(
        "timers through kills",
        rounds=2,
        messages=len(due),
        lost=len(due.keys() - recalled - found.keys()),
        phantom=len(found.keys() & recalled),
        faults=2,
    )
    assert found.keys() == due.keys() - recalled
    for name, at_ms in found.items():
        assert at_ms >= due[name], "early"
        was_away = any(began - LATE_MS <= due[name] <= ended + LATE_MS for began, ended in away)
        assert missed_at[name] <= due[name] + LATE_MS or was_away, f"late by {at_ms - due[name]} ms"


def test_transactions_through_kills(tmp_path: Path) -> None:
    """A crash behind each step: committed is delivered once, rolled back never, the open one is asked about."""
    settings = {**SETTINGS, "store.transaction_check_after_seconds": "3"}
    with ServerProcess(tmp_path, settings) as server:

        def crash() -> GrpcClient:
            server.kill()
            server.restart()
            return GrpcClient(server.address("grpc"))

        client = GrpcClient(server.address("grpc"))
        bodies = (b"committed", b"rolled back", b"open", b"late")
        entries = client.send(*(client.message("t", body, message_type=v2.TRANSACTION) for body in bodies)).entries
        assert {entry.status.code for entry in entries} == {v2.OK}
        client = crash()
        assert client.receive("t", "readers", wait_ms=500) == []

        def end(place: int, resolution: v2.TransactionResolution.ValueType) -> int:
            question = v2.EndTransactionRequest(
                topic=v2.Resource(name="t"), transaction_id=entries[place].transaction_id, resolution=resolution
            )
            return int(client.call("EndTransaction", question).status.code)

        assert end(0, v2.COMMIT) == v2.OK
        client = crash()
        assert end(0, v2.ROLLBACK) == v2.INVALID_TRANSACTION_ID
        assert end(1, v2.ROLLBACK) == v2.OK
        client = crash()
        assert end(1, v2.COMMIT) == v2.INVALID_TRANSACTION_ID
        [found] = client.receive("t", "readers", wait_ms=2000)
        assert found.body == b"committed"
        client.ack("t", "readers", found)
        client = crash()
        said = v2.Settings(publishing=v2.Publishing(topics=[v2.Resource(name="t")]))
        asked: set[bytes] = set()

        def commands():  # type: ignore[no-untyped-def]
            yield v2.TelemetryCommand(settings=said)
            wait_until(lambda: len(asked) == 2, lambda: str(asked))

        from tests.support.rocketmq.client import SERVICE

        ask = client.channel.stream_stream(
            SERVICE + "Telemetry", v2.TelemetryCommand.SerializeToString, v2.TelemetryCommand.FromString
        )
        for command in ask(commands(), timeout=2 * PATIENCE_SECONDS, metadata=client.metadata()):
            if command.HasField("recover_orphaned_transaction_command"):
                asked.add(command.recover_orphaned_transaction_command.message.body)
        assert asked == {b"open", b"late"}
        assert end(3, v2.COMMIT) == v2.OK
        [found] = client.receive("t", "readers", wait_ms=2000)
        tell("transactions through kills", messages=4, faults=4)
        assert found.body == b"late"
