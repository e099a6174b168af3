"""Places that the benchmark `engine` compares: gateways before RocketMQ and our broker, and RocketMQ's own client."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import pytest

from benchmarks.processes import ENTREPOT, ROOT, BenchmarkError, Server, running, stop
from benchmarks.remote import broker
from tests.support.rocketmq.cluster import RocketMqCluster
from tests.support.rocketmq.java_process import FETCHED

RECEIVED: Final = 32
"""Most messages that RocketMQ gives at once; the RocketMQ door gives as many at both sides."""
CLIENT: Final = ROOT / "benchmarks" / "OneByOneProducer.java"
CLIENT_TOPIC: Final = "one-by-one"
CLIENT_THREADS: Final = 64
BODY_BYTES: Final = 200
_CLASS_PATH: Final = f"{FETCHED}/lib/*"


@contextmanager
def rocketmq(flush: str, *, proxy: bool = False, lives_long: bool = False) -> Iterator[RocketMqCluster]:
    """A name server and a broker of RocketMQ, which flushes so, perhaps with a proxy.  Raises BenchmarkError where it
    cannot run."""
    with tempfile.TemporaryDirectory(prefix="rocketmq-bench-") as directory:
        try:
            cluster = RocketMqCluster(
                Path(directory), proxy=proxy, lives_long=lives_long, settings={"flushDiskType": flush}
            )
        except pytest.skip.Exception as missing:
            raise BenchmarkError(missing.msg or "RocketMQ cannot run here") from None
        try:
            _begin(cluster)
            yield cluster
        finally:
            cluster.kill()


def _begin(cluster: RocketMqCluster) -> None:
    try:
        cluster.start()
    except AssertionError as failed:
        raise BenchmarkError(f"RocketMQ has not started: {failed}") from failed
    cluster.put_topic(CLIENT_TOPIC)


@contextmanager
def before_rocketmq(cluster: RocketMqCluster, command: Sequence[str] = ENTREPOT) -> Iterator[Server]:
    """A gateway in front of a cluster, with its facts in a folder."""
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        servers = json.dumps([f"127.0.0.1:{cluster.name_server_port}"])
        flags = ["--set", f"rocketmq.name_servers={servers}", "--set", f"facts.url=file:{directory}/facts"]
        with _gateway("a gateway at RocketMQ", directory, flags, command) as server:
            yield server


@contextmanager
def before_broker(command: Sequence[str] = ENTREPOT) -> Iterator[Server]:
    """A gateway in front of a broker of ours with an empty store, which is another process."""
    with broker() as store, tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        flags = ["--broker", f"127.0.0.1:{store.ports['broker']}"]
        with _gateway("a gateway at our broker", directory, flags, command) as server:
            yield server


@contextmanager
def _gateway(name: str, directory: str, flags: list[str], command: Sequence[str]) -> Iterator[Server]:
    ready = Path(directory) / "gateway.json"
    ends = ["--free-ports", "--ready-file", str(ready), "--set", "log.level=warning"]
    ends += ["--set", f"grpc.max_receive_messages={RECEIVED}"]
    with running(name, [*command, "gateway", *flags, *ends], ready) as server:
        yield server


@dataclass(frozen=True, slots=True)
class Sent:
    """What RocketMQ's client has sent in a while; `cpu_seconds` are its own."""

    count: int
    seconds: float
    cpu_seconds: float

    @classmethod
    def of(cls, line: str) -> Self:
        """Read the client's answer.  Raises BenchmarkError for a failure."""
        try:
            count, taken, cpu = map(int, line.split())
        except ValueError:
            raise BenchmarkError(f"RocketMQ's client: {line.strip() or 'it has ended'}") from None
        return cls(count, taken / 1e9, cpu / 1e9)


class OneByOne:
    """RocketMQ's Java client in a process of its own: threads that send one message after the other."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def send(self, seconds: float) -> Sent:
        """Send for some seconds.  Raises BenchmarkError where a message fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{seconds}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchmarkError("RocketMQ's client has ended") from None
        return Sent.of(self._process.stdout.readline().decode())


@contextmanager
def one_by_one(cluster: RocketMqCluster, topic: str = CLIENT_TOPIC) -> Iterator[OneByOne]:
    """RocketMQ's client at a cluster, for a topic that is there.  Raises BenchmarkError without a Java compiler."""
    with tempfile.TemporaryDirectory(prefix="rocketmq-bench-") as directory:
        _compile(directory)
        name_server = f"127.0.0.1:{cluster.name_server_port}"
        arguments = [CLIENT.stem, name_server, topic, str(CLIENT_THREADS), str(BODY_BYTES)]
        java = ["java", f"-Duser.home={directory}", "-Xmx256m", "-cp", f"{directory}:{_CLASS_PATH}", *arguments]
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *java],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield OneByOne(process)
        finally:
            stop(process)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _compile(directory: str) -> None:
    compiler = shutil.which("javac")
    if compiler is None:
        raise BenchmarkError("RocketMQ's client is compiled by javac, which is not here")
    command = [compiler, "-proc:none", "-d", directory, "-cp", _CLASS_PATH, str(CLIENT)]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode:
        raise BenchmarkError(f"{CLIENT.name} was not compiled: {compiled.stderr.strip()}")
