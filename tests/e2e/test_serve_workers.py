"""`entrepot serve --workers`: several gateways before one store process, over the data directory of plain `serve`."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pika  # type: ignore[import-untyped]
import psutil  # type: ignore[import-untyped]
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.support.amqp.load import parameters
from tests.support.processes.server import ServerProcess, WorkersProcess, connections_at, is_alive
from tests.support.waiting import wait_until

CONNECTIONS = 12


class Device:
    """A paho client with a session that is kept, and what it was sent."""

    def __init__(self, server: ServerProcess, name: str) -> None:
        self.got: list[bytes] = []
        self.is_subscribed = False
        self.client = paho.Client(CallbackAPIVersion.VERSION2, name, clean_session=False)
        self.client.reconnect_delay_set(1, 1)
        self.client.on_connect = lambda client, *rest: client.subscribe("both/#", qos=1)
        self.client.on_subscribe = self._subscribed
        self.client.on_message = lambda client, data, message: self.got.append(bytes(message.payload))
        self.client.connect("127.0.0.1", server.port("mqtt"))
        self.client.loop_start()

    def _subscribed(self, *rest: Any) -> None:
        self.is_subscribed = True

    def publish(self, body: bytes) -> None:
        """Wait for the PUBACK, over another connection if need be."""
        info = self.client.publish("both/x", body, qos=1)
        wait_until(lambda: _is_published(info), "the publish is confirmed")

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def _is_published(info: paho.MQTTMessageInfo) -> bool:
    info.wait_for_publish(1)
    return info.is_published()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WorkersProcess]:
    with WorkersProcess(tmp_path, {"grpc.enabled": "false"}) as running:
        yield running


def connected(server: ServerProcess, stack: ExitStack, count: int = CONNECTIONS) -> list[Device]:
    devices = [Device(server, f"device{number}") for number in range(count)]
    for device in devices:
        stack.callback(device.close)
    wait_until(lambda: all(device.is_subscribed for device in devices), "all are subscribed")
    return devices


def queue_channel(server: ServerProcess, stack: ExitStack) -> Any:
    connection = pika.BlockingConnection(parameters(server.port("amqp")))
    stack.callback(_closed, connection)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True)
    return channel


def _closed(connection: Any) -> None:
    with contextlib.suppress(pika.exceptions.AMQPError):  # it may have ended before
        connection.close()


def test_what_one_worker_takes_the_other_gives_and_plain_serve_has_it_all(server: WorkersProcess) -> None:
    with ExitStack() as stack:
        devices = connected(server, stack)
        served = [connections_at(pid, server.port("mqtt")) for pid in server.gateway_pids()]
        assert len(served) == 2 and all(served) and sum(served) == CONNECTIONS, "both have clients"
        for number, device in enumerate(devices):
            device.publish(str(number).encode())
        expected = sorted(str(number).encode() for number in range(CONNECTIONS))
        wait_until(lambda: all(len(device.got) >= CONNECTIONS for device in devices), "all have all")
        assert all(sorted(device.got) == expected for device in devices)

        channels = [queue_channel(server, stack) for _ in range(8)]
        for number, channel in enumerate(channels):
            channel.basic_publish("", "orders", str(number).encode(), pika.BasicProperties(delivery_mode=2))
        taken = [channels[0].basic_get("orders", auto_ack=True)[2] for _ in range(4)]
        assert len(set(taken)) == 4 and None not in taken

    pids = [*server.parts(), server.pid]
    assert server.stop() == 0, server.log_text()
    assert not any(is_alive(pid) for pid in pids)
    stops = [line for line in server.log_text().splitlines() if "stopped" in line or "draining" in line]
    assert len(stops) == 6 and "draining" in stops[-2] and "stopped" in stops[-1], "gateways first, then the store"
    assert "Traceback" not in server.log_text()
    _plain_serve_has(server.directory, 4)


def _plain_serve_has(directory: Path, count: int) -> None:
    """The queue of the same data directory, read by `serve` in one process."""
    with ServerProcess(directory) as plain, ExitStack() as stack:
        channel = queue_channel(plain, stack)
        assert channel.queue_declare("orders", passive=True).method.message_count == count
        assert plain.data_dir.joinpath("broker.json").exists()


@pytest.mark.failure_also("A worker of a gateway dies")
def test_a_worker_that_is_killed_is_started_again(server: WorkersProcess) -> None:
    with ExitStack() as stack:
        device = connected(server, stack, 1)[0]
        (victim,) = (pid for pid in server.gateway_pids() if connections_at(pid, server.port("mqtt")))
        (other,) = server.gateway_pids() - {victim}
        device.is_subscribed = False
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: device.is_subscribed, "it is back, at the other")
        device.publish(b"after")
        wait_until(lambda: device.got == [b"after"], "and is given what it publishes")
        wait_until(lambda: len(server.gateway_pids()) == 2, "another is started")
        assert other in server.gateway_pids() and victim not in server.gateway_pids()
        assert "a worker has ended" in server.log_text()


@pytest.mark.failure(
    "The store dies under `serve --workers`",
    group="A broker without replicas",
    does="The parent starts it again, and it reads its log. Gateways and their clients stay.",
    lost="nothing",
    told="log: the store's process was killed: it is started again",
)
def test_a_store_that_is_killed_is_started_again_under_its_gateways(server: WorkersProcess) -> None:
    with ExitStack() as stack:
        device = connected(server, stack, 1)[0]
        device.publish(b"before")
        store, gateways = server.store_pid(), server.gateway_pids()
        os.kill(store, signal.SIGKILL)
        wait_until(lambda: server.log_text().count("store opened") == 2, "it is opened anew")
        assert "the store's process was killed: it is started again" in server.log_text()
        device.publish(b"after")
        wait_until(lambda: {*device.got} == {b"before", b"after"}, "nothing is lost")
        assert server.gateway_pids() == gateways and server.store_pid() != store
    assert server.stop() == 0


@pytest.mark.failure_also("The process that syncs the store's files is killed")
def test_a_store_that_gives_up_ends_all_with_1(server: WorkersProcess) -> None:
    (sync,) = psutil.Process(server.store_pid()).children()
    sync.kill()
    pids = server.parts()
    with contextlib.suppress(pika.exceptions.AMQPError), ExitStack() as stack:
        queue_channel(server, stack)  # what is to be written shows that it cannot be
    assert server.wait() == 1
    assert "stopping: the store has failed" in server.log_text()
    assert "stopping: the store's process has ended" in server.log_text()
    assert not any(is_alive(pid) for pid in pids)


def test_all_end_when_the_parent_is_killed(server: WorkersProcess) -> None:
    with ExitStack() as stack:
        channel = queue_channel(server, stack)
        channel.basic_publish("", "orders", b"kept", pika.BasicProperties(delivery_mode=2))
        pids = server.parts()
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not any(is_alive(pid) for pid in pids), "nobody is left")
    assert not (server.data_dir / "abort").exists(), "the store was closed"
    _plain_serve_has(server.directory, 1)


def test_the_store_has_no_port_and_its_socket_is_for_this_user_alone(server: WorkersProcess) -> None:
    store = psutil.Process(server.store_pid())
    assert [each for each in store.net_connections("inet") if each.status == psutil.CONN_LISTEN] == []
    (path,) = {each.laddr for each in store.net_connections("unix") if str(each.laddr).startswith("/")}
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(Path(path).parent).st_mode) == 0o700
    assert server.stop() == 0
    assert not Path(path).parent.exists()
