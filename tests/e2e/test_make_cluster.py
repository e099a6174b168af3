"""`make cluster`: name servers, brokers and gateways, started, used and stopped together."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pytest

from deploy import cluster_arguments
from tests.support.processes.server import is_alive
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\s*(nameserver|broker|gateway)\s+(\S+)\s+(.*?)\s+(\d+)\s+(\S+)\s+(\S+)\s*$")
NAMES = ["nameserver-0", "nameserver-1", "broker-0", "broker-1", "gateway-0", "gateway-1"]
TWO_OF_EACH = ["--nameservers", "2", "--brokers", "2", "--gateways", "2"]

pytestmark = pytest.mark.timeout(300)


class Cluster:
    """The program, and what it prints."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.data_dir = directory / "cluster"
        self._output = directory / "output"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ENTREPOT__")}
        command = [sys.executable, "-m", "deploy.cluster", "--data-dir", str(self.data_dir), *arguments]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    def output(self) -> str:
        return self._output.read_text()

    def wait_for(self, text: str) -> None:
        def is_said() -> bool:
            assert text in self.output() or self.process.poll() is None, self.output()
            return text in self.output()

        wait_until(is_said, self.output, 3 * PATIENCE_SECONDS)

    def rows(self) -> dict[str, re.Match[str]]:
        return {row[2]: row for line in self.output().splitlines() if (row := ROW.match(line))}

    def pid(self, name: str) -> int:
        return int(self.rows()[name][4])

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(2 * PATIENCE_SECONDS)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(tmp_path, *TWO_OF_EACH)
    try:
        started.wait_for("Ctrl-C stops it")
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait()
        for name in started.rows():
            if is_alive(started.pid(name)):
                os.kill(started.pid(name), signal.SIGKILL)


def call(address: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Any:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_SECONDS)
    connection.request("POST", path, body, headers or {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    assert answer.status == 200, content
    return json.loads(content) if content else None


def test_what_one_gateway_takes_another_gives_and_a_stop_ends_all(cluster: Cluster) -> None:
    rows = cluster.rows()
    assert list(rows) == NAMES
    first, last = (re.search(r"http://(\S+)", rows[name][3])[1] for name in ("gateway-0", "gateway-1"))  # type: ignore[index]
    event = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/test"}
    headers = {**event, "content-type": "application/json"}
    call(first, "/topics/factory:publish", b'{"temp": 21}', headers)
    answer = call(last, "/topics/factory/eventsubscriptions/workers:receive?maxWaitTime=20")
    assert [item["event"]["data"] for item in answer["value"]] == [{"temp": 21}]

    pids = [cluster.pid(name) for name in rows]
    assert cluster.stop() == 0, cluster.output()
    assert "all have stopped" in cluster.output()
    assert [pid for pid in pids if is_alive(pid)] == []
    assert (cluster.data_dir / "broker-0" / "broker.json").exists()
    assert not (cluster.data_dir / "broker-0" / "abort").exists(), "the store was closed"
    assert list((cluster.data_dir / "run").iterdir()) == []


@pytest.mark.soak
def test_every_part_answers_a_ping_and_another_cluster_is_kept_out(cluster: Cluster) -> None:
    rows = cluster.rows()
    [gateway] = re.findall(r"http://(\S+)", rows["gateway-1"][3])
    for target in (rows["broker-1"][3], rows["nameserver-0"][3], f"http://{gateway}"):
        secret = f"cluster.secret_file={cluster.data_dir / 'cluster-secret'}"
        command = [sys.executable, "-m", "entrepot.gateway.cli", "ping", target, "--timeout", "20", "--set", secret]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{target} answers after ")

    again = [sys.executable, "-m", "deploy.cluster", "--data-dir", str(cluster.data_dir)]
    done = subprocess.run(again, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "another cluster runs in" in done.stdout) == (1, True)
    tell("every part of a cluster that was made", messages=3)


def amqp_addresses(cluster: Cluster) -> list[str]:
    """Of the gateways, in their order."""
    found = [re.search(r"amqp://(\S+)", row[3]) for name, row in cluster.rows().items() if name.startswith("gateway")]
    return [address[1] for address in found if address is not None]


@pytest.mark.soak
async def test_what_one_gateway_declares_another_publishes_to(cluster: Cluster) -> None:
    """Exchange, queue and binding declared by AMQP at one gateway, used at the other, and back."""
    addresses = amqp_addresses(cluster)
    assert len(set(addresses)) == 2, cluster.output()
    here, there = [await aio_pika.connect_robust(f"amqp://guest:guest@{address}/") for address in addresses]
    async with here, there:
        channel, other = await here.channel(), await there.channel(on_return_raises=True)
        exchange = await channel.declare_exchange("orders", aio_pika.ExchangeType.DIRECT, durable=True)
        queue = await channel.declare_queue("invoices", durable=True)
        await queue.bind(exchange, "new")

        async def is_routed(body: bytes) -> bool:
            """The other gateway has been told within a moment; until then it says what it does not know."""
            try:
                asked = await there.channel(on_return_raises=True)
                target = await asked.get_exchange("orders")
                await target.publish(aio_pika.Message(body), "new", mandatory=True)
            except (aio_pika.exceptions.ChannelNotFoundEntity, aio_pika.exceptions.PublishError):
                return False
            return True

        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await is_routed(b"1"):
                pass
        message = await queue.get(timeout=PATIENCE_SECONDS)
        assert (message.body, message.exchange, message.routing_key) == (b"1", "orders", "new")
        await message.ack()
        assert (await other.declare_queue("invoices", passive=True)).declaration_result.message_count == 0

        taken: asyncio.Queue[bytes] = asyncio.Queue()

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            taken.put_nowait(message.body)
            await message.ack()

        await (await other.get_queue("invoices")).consume(take)
        await exchange.publish(aio_pika.Message(b"2"), "new", mandatory=True)
        assert await asyncio.wait_for(taken.get(), PATIENCE_SECONDS) == b"2"
    tell("declarations in a cluster that was made", messages=2)


@pytest.mark.soak
def test_ports_of_amqp_count_on_from_the_first(tmp_path: Path) -> None:
    first = two_free_ports()
    cluster = Cluster(tmp_path, "--nameservers", "1", "--brokers", "1", "--gateways", "2", "--amqp-port", str(first))
    try:
        cluster.wait_for("Ctrl-C stops it")
        assert amqp_addresses(cluster) == [f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"]
        assert cluster.stop() == 0, cluster.output()
        tell("ports of a cluster that was made")
    finally:
        if cluster.process.poll() is None:
            cluster.process.kill()
            cluster.process.wait()
        for name in cluster.rows():
            if is_alive(cluster.pid(name)):
                os.kill(cluster.pid(name), signal.SIGKILL)


def two_free_ports() -> int:
    """The first of two ports in a row that are free just now, of those that the system gives to nobody by itself."""
    for port in range(20_000, 30_000, 2):
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no two ports are free")


@pytest.mark.soak
def test_a_part_that_dies_is_started_again_where_it_was(cluster: Cluster) -> None:
    """Any one of them: others find it at its addresses, and with its data."""
    rows = cluster.rows()
    first, last = (re.search(r"http://(\S+)", rows[name][3])[1] for name in ("gateway-0", "gateway-1"))  # type: ignore[index]
    event = {"ce-specversion": "1.0", "ce-type": "t", "ce-source": "/test", "content-type": "application/json"}
    for number, name in enumerate(NAMES):
        call(first, "/topics/factory:publish", b"%d" % number, {**event, "ce-id": f"before {number}"})
        os.kill(cluster.pid(name), signal.SIGKILL)
        cluster.wait_for(f"{name} was killed by SIGKILL: it is started again")
        for address in (first, last):
            wait_until(lambda: is_ready(address), cluster.output, 3 * PATIENCE_SECONDS)  # noqa: B023
    found: set[str] = set()

    def are_all_there() -> bool:
        answer = call(last, "/topics/factory/eventsubscriptions/workers:receive?maxWaitTime=1&maxEvents=100")
        found.update(item["event"]["id"] for item in answer["value"])
        return len(found) == len(NAMES)

    wait_until(are_all_there, lambda: f"{found}: {cluster.output()}", 3 * PATIENCE_SECONDS)
    assert cluster.stop() == 0, cluster.output()
    tell("parts of a cluster that die", faults=len(NAMES), messages=len(NAMES))


def is_ready(address: str) -> bool:
    """True if a gateway takes requests, and sees both brokers."""
    try:
        connection = http.client.HTTPConnection(address, timeout=PATIENCE_SECONDS)
        connection.request("GET", "/api/v1/brokers")
        answer = json.loads(connection.getresponse().read())
        connection.close()
    except (OSError, http.client.HTTPException, ValueError):
        return False
    return [each["isAvailable"] for each in answer.get("value", ())] == [True, True]


@pytest.mark.soak
def test_a_part_that_dies_again_and_again_ends_all(cluster: Cluster) -> None:
    pids = [cluster.pid(name) for name in NAMES]
    shutil.rmtree(cluster.data_dir / "broker-1" / "commitlog")
    (cluster.data_dir / "broker-1" / "store.json").write_text("{")
    os.kill(cluster.pid("broker-1"), signal.SIGKILL)
    assert cluster.process.wait(6 * PATIENCE_SECONDS) == 1
    assert "broker-1 has ended with exit code 1, for the 6th time in a minute. The end of" in cluster.output()
    assert "store.json cannot be read" in cluster.output(), "the end of its log is shown"
    tell("a part of a cluster that cannot be kept", faults=1)
    assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.soak
def test_what_cannot_start_is_told(tmp_path: Path) -> None:
    (tmp_path / "cluster" / "broker-0").mkdir(parents=True)
    (tmp_path / "cluster" / "broker-0" / "store.json").write_text("{")
    cluster = Cluster(tmp_path, "--nameservers", "1", "--brokers", "1", "--gateways", "1")
    assert cluster.process.wait(3 * PATIENCE_SECONDS) == 1
    assert "broker-0 has ended with exit code 1" in cluster.output()
    assert "store.json cannot be read" in cluster.output()
    assert "all have stopped" in cluster.output()
    tell("a cluster that cannot start", faults=1)


@pytest.mark.parametrize(
    ("given", "is_large", "counts"),
    [
        ([], True, (3, 3, 1, 3, 3)),
        ([], False, (2, 0, 2, 1, 2)),
        (["--brokers", "3"], True, (3, 0, 3, 1, 3)),
        (["--replicas", "3"], False, (2, 1, 1, 3, 2)),
        (["--replicas", "2", "--brokers", "2", "--nameservers", "1", "--gateways", "1"], True, (1, 1, 2, 2, 1)),
        (["--controllers", "0"], True, (3, 0, 1, 3, 3)),
        (["--nameservers", "7"], True, (7, 5, 1, 3, 3)),
    ],
)
def test_how_many_there_are(
    given: list[str], is_large: bool, counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name servers, controllers in them, brokers, replicas of each, gateways."""
    monkeypatch.setattr(cluster_arguments, "_free_bytes", lambda: 8 << 30 if is_large else 7 << 30)
    found = cluster_arguments.arguments(given)
    assert (found.nameservers, found.controllers, found.brokers, found.replicas, found.gateways) == counts


def test_more_controllers_than_name_servers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cluster_arguments.arguments(["--controllers", "3", "--nameservers", "2"])
    assert "they are in name servers, and there are 2" in capsys.readouterr().err


def test_make_runs_it() -> None:
    command = ["make", "-n", "-o", "setup", "cluster", "ARGS=--brokers 3"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "-m deploy.cluster --brokers 3\n" in told


@pytest.mark.soak
def test_a_second_signal_kills(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "--nameservers", "1", "--brokers", "1", "--gateways", "1")
    cluster.wait_for("Ctrl-C stops it")
    pids = [cluster.pid(name) for name in cluster.rows()]
    os.kill(cluster.pid("broker-0"), signal.SIGSTOP)  # it does not stop when it is told to
    cluster.process.send_signal(signal.SIGINT)
    cluster.wait_for("stopping")
    assert cluster.stop(signal.SIGINT) == 1, cluster.output()
    assert "broker-0 was killed by SIGKILL instead of stopping cleanly" in cluster.output()
    tell("a cluster that is told twice to stop", faults=1)
    assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.soak
def test_name_servers_of_replicas_are_controllers(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "--replicas", "3", "--nameservers", "3", "--gateways", "1")
    try:
        cluster.wait_for("Ctrl-C stops it")
        rows = cluster.rows()
        assert [name for name in rows if "broker" in name] == [f"broker-0-{replica}" for replica in (1, 2, 3)]
        [gateway] = re.findall(r"http://(\S+)", rows["gateway-0"][3])
        shown = [
            sys.executable,
            "-m",
            "entrepot.gateway.cli",
            "cluster",
            "show",
            "--json",
            "--server",
            f"http://{gateway}",
        ]

        def states() -> list[str]:
            done = subprocess.run(shown, cwd=ROOT, capture_output=True, text=True, check=True)
            return sorted(each["state"] for each in json.loads(done.stdout)["controllers"])

        assert states() == ["follows", "follows", "leads"]
        assert cluster.stop() == 0, cluster.output()
        tell("three of each in a cluster that was made")
    finally:
        if cluster.process.poll() is None:
            cluster.process.kill()
            cluster.process.wait()
        for name in cluster.rows():
            if is_alive(cluster.pid(name)):
                os.kill(cluster.pid(name), signal.SIGKILL)
