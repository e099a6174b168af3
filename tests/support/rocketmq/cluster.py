"""The real Apache RocketMQ: a name server, brokers, a controller and a proxy, each a process on free loopback ports."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.processes.ports import free_port, free_ports_apart
from tests.support.processes.started import Started
from tests.support.rocketmq.java_process import START_SECONDS, JavaProcess, require_rocketmq
from tests.support.rocketmq.proxies import CLUSTER, ProxyProcess
from tests.support.rocketmq.remoting_client import (
    CLUSTER_INFO,
    PUT_GROUP,
    PUT_TOPIC,
    RUNTIME_INFO,
    TOPIC_STATS,
    RemotingClient,
    RemotingError,
)
from tests.support.waiting import wait_until

_FAST_PORT: Final = 2
"""A broker listens on the port this far below its own, too."""
_BROKER: Final = {
    "brokerClusterName": CLUSTER,
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "bindAddress": "127.0.0.1",
    "flushDiskType": "ASYNC_FLUSH",
    "mappedFileSizeCommitLog": 64 << 20,
    "mappedFileSizeConsumeQueue": 600_000,
    "mappedFileSizeTimerLog": 16 << 20,
    "maxIndexNum": 400_000,
    "maxHashSlotNum": 100_000,
    "diskMaxUsedSpaceRatio": 98,
    "autoCreateTopicEnable": False,
    "autoCreateSubscriptionGroup": True,
    "enablePropertyFilter": True,
    "enableMixedMessageType": True,
    "recallMessageEnable": True,
    "transactionTimeOut": 5_000,
    "transactionCheckInterval": 1_000,
    "waitTimeMillsInSendQueue": 5_000,
}
"""Files are small, and what a producer may do is allowed.  An ended transaction is on record 3 s later: until then a
broker would ask after it."""
_CONTROLLED: Final = {
    "enableControllerMode": True,
    "brokerId": -1,
    "brokerRole": "SLAVE",
    "allAckInSyncStateSet": True,
    "brokerHeartbeatInterval": 500,
    "brokerNotActiveTimeoutMillis": 3_000,
    "controllerHeartBeatTimeoutMills": 3_000,
    "checkSyncStateSetPeriod": 1_000,
}
"""A replica is missed after three seconds.  What is confirmed is at all replicas that may become the master."""


@dataclass
class BrokerPlace:
    """A broker by its name and number of replica, and its port."""

    name: str
    number: int
    port: int

    @property
    def process(self) -> str:
        """The name of its program, and of its folder."""
        return f"{self.name}-{self.number}"


class RocketMqCluster(Started):
    """A name server and `brokers` masters on an empty folder, with a `proxy` before them.  They are killed at the end.

    `controlled`: the brokers are replicas of one name instead, and `controllers` choose their master.  `settings`: of
    the brokers, beyond those of all tests.  `lives_long`: Java compiles as far as it can, with a large heap."""

    def __init__(
        self,
        directory: Path,
        brokers: int = 1,
        *,
        controlled: bool = False,
        controllers: int = 1,
        proxy: bool = False,
        lives_long: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        require_rocketmq()
        self.directory = directory
        self.name_server_port = free_port()
        self.controller_ports = [free_port() for _ in range(controllers)] if controlled else []
        self._settings = dict(settings or {})
        self._wants_proxy, self._lives_long = proxy, lives_long
        self.brokers: list[BrokerPlace] = []
        for _ in range(brokers):
            self._place()
        self.processes: list[JavaProcess] = []
        self.proxies: list[ProxyProcess] = []

    def _place(self) -> BrokerPlace:
        number = len(self.brokers)
        name = "broker-0" if self.controller_ports else f"broker-{number}"
        self.brokers.append(BrokerPlace(name, number, free_ports_apart(_FAST_PORT)[1]))
        return self.brokers[-1]

    # -- processes ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all, and wait until the name server knows every broker, and the proxy takes calls."""
        self._begin("namesrv", "namesrv.NamesrvStartup", 64, ["-c", self._write("namesrv", self._of_name_server())])
        for number in range(len(self.controller_ports)):
            settings = self._write(f"controller-{number}", self._of_controller(number))
            self._begin(f"controller-{number}", "controller.ControllerStartup", 64, ["-c", settings])
        for port in (*self.controller_ports, self.name_server_port):
            wait_until(partial(self._listens, port), self.log_text, START_SECONDS)
        for place in self.brokers:
            self._begin_broker(place)
        wait_until(self.knows_all, self.log_text, START_SECONDS)
        if self._wants_proxy:
            self.start_proxies(1)

    def start_proxies(self, count: int, settings: dict[str, Any] | None = None) -> None:
        """Start so many, one after the other, and wait until each takes calls."""
        for number in range(count):
            name, lives_long = f"proxy-{number}", self._lives_long
            proxy = ProxyProcess(self.directory, self.name_server_port, name, settings, lives_long=lives_long)
            self.proxies.append(proxy)
            self.processes.append(proxy)
            proxy.start()
            proxy.wait_ready()

    def add_broker(self) -> BrokerPlace:
        """Start one more broker, and wait until the name server knows it."""
        place = self._place()
        self._begin_broker(place)
        wait_until(self.knows_all, self.log_text, START_SECONDS)
        return place

    def _begin_broker(self, place: BrokerPlace) -> None:
        settings = self._write(place.process, self._of_broker(place))
        self._begin(place.process, "broker.BrokerStartup", 192, ["-c", settings])

    def process(self, name: str) -> JavaProcess:
        """A program by its name: `namesrv`, `controller-0`, `broker-0-0` (its replica last)."""
        return next(process for process in self.processes if process.name == name)

    def kill(self) -> None:
        """SIGKILL to every process, and wait for their ends."""
        for process in reversed(self.processes):
            process.kill()

    def log_text(self) -> str:
        return "\n".join(f"{process.name}:\n{process.log_text()}" for process in self.processes)

    def _begin(self, name: str, main: str, heap_mib: int, arguments: list[str]) -> None:
        process = JavaProcess(
            self.directory, name, f"org.apache.rocketmq.{main}", heap_mib, arguments, lives_long=self._lives_long
        )
        self.processes.append(process)
        process.start()

    def _listens(self, port: int) -> bool:
        for process in self.processes:
            process.check()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def knows_all(self) -> bool:
        """True once the name server knows every broker; fails if a process has ended."""
        for process in self.processes:
            process.check()
        try:
            known = self.known_brokers()
        except OSError:  # a name server that begins, or ends, ends a connection at any moment
            return False
        return sum(map(len, known.values())) == len(self.brokers)

    # -- what an operator asks and makes -----------------------------------------------------------------------------

    def known_brokers(self) -> dict[str, dict[str, str]]:
        """Addresses by number of replica, of each broker that the name server knows."""
        with RemotingClient(self.name_server_port) as client:
            found = client.ask(CLUSTER_INFO).content()["brokerAddrTable"]
        return {name: about["brokerAddrs"] for name, about in found.items()}

    def master(self, name: str = "broker-0") -> BrokerPlace | None:
        """The master of a broker, as the name server tells it; None while there is none."""
        address = self.known_brokers().get(name, {}).get("0", "")
        return next((place for place in self.brokers if address.endswith(f":{place.port}")), None)

    def put_topic(
        self, name: str, queues: int = 4, message_type: str = "MIXED", brokers: int | None = None, permission: int = 6
    ) -> None:
        """Make or change a topic at the first `brokers`, else at all.  `permission`: 4 to read, and 2 to write."""
        fields = {
            "topic": name,
            "defaultTopic": "TBW102",
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": permission,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
            "attributes": f"+message.type={message_type}",
        }
        self._at_brokers(PUT_TOPIC, fields, b"", brokers)

    def put_group(self, name: str, *, fifo: bool = False, max_attempts: int = 17, lite_topic: str = "") -> None:
        """Make or change a consumer group at all brokers.  `lite_topic`: the topic whose lite topics it consumes."""
        definition = {
            "groupName": name,
            "consumeEnable": True,
            "consumeFromMinEnable": True,
            "consumeMessageOrderly": fifo,
            "retryMaxTimes": max_attempts - 1,
            "attributes": {"+lite.bind.topic": lite_topic} if lite_topic else {},
        }
        self._at_brokers(PUT_GROUP, None, json.dumps(definition).encode(), None)

    def bounds(self, topic: str) -> dict[tuple[str, int], tuple[int, int]]:
        """First and next offset of each queue of a topic, by broker and queue id, as the brokers tell operators."""
        found: dict[tuple[str, int], tuple[int, int]] = {}
        for place in self.brokers:
            with RemotingClient(place.port) as client:
                try:
                    table = client.ask(TOPIC_STATS, {"topic": topic}).content()["offsetTable"]
                except RemotingError:
                    continue  # the topic is at other brokers
            for queue, about in table:
                found[queue["brokerName"], queue["queueId"]] = about["minOffset"], about["maxOffset"]
        return found

    def wait_readable(self) -> None:
        """Wait until all that has been confirmed is in its queue: a broker puts it there a little later."""
        for place in self.brokers:
            with RemotingClient(place.port) as client:
                wait_until(partial(_has_dispatched, client), self.log_text)

    def _at_brokers(self, code: int, fields: dict[str, Any] | None, body: bytes, brokers: int | None) -> None:
        for place in self.brokers[:brokers]:
            with RemotingClient(place.port) as client:
                client.ask(code, fields, body)

    # -- files -------------------------------------------------------------------------------------------------------

    def _of_name_server(self) -> dict[str, Any]:
        data = self.directory / "namesrv"
        return {
            "listenPort": self.name_server_port,
            "bindAddress": "127.0.0.1",
            "kvConfigPath": data / "kvConfig.json",
            "configStorePath": data / "namesrv.properties",
        }

    def _of_controller(self, number: int) -> dict[str, Any]:
        peers = (f"n{peer}-127.0.0.1:{port}" for peer, port in enumerate(self.controller_ports))
        return {
            "controllerDLegerGroup": "group",
            "controllerDLegerPeers": ";".join(peers),
            "controllerDLegerSelfId": f"n{number}",
            "controllerStorePath": self.directory / f"controller-{number}",
            "scanNotActiveBrokerInterval": 1_000,
        }

    def _of_broker(self, place: BrokerPlace) -> dict[str, Any]:
        data = self.directory / place.process
        found = {
            **_BROKER,
            "brokerName": place.name,
            "brokerId": 0,
            "brokerRole": "ASYNC_MASTER",
            "listenPort": place.port,
            "haListenPort": free_port(),
            "namesrvAddr": f"127.0.0.1:{self.name_server_port}",
            "storePathRootDir": data,
            "storePathCommitLog": data / "commitlog",
        }
        if self.controller_ports:
            addresses = ";".join(f"127.0.0.1:{port}" for port in self.controller_ports)
            found |= {"controllerAddr": addresses, **_CONTROLLED}
        return found | self._settings

    def _write(self, name: str, settings: dict[str, Any]) -> str:
        path = self.directory / f"{name}.conf"
        path.write_text("".join(f"{key}={_text(value)}\n" for key, value in settings.items()))
        return str(path)


def _has_dispatched(client: RemotingClient) -> bool:
    """True once all that a broker has is in its queues.  One that has just begun has no figures, and answers with a
    fault."""
    try:
        return bool(client.ask(RUNTIME_INFO).content()["table"]["dispatchBehindBytes"] == "0")
    except RemotingError:
        return False


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.fixture(scope="session")
def rocketmq_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketMqCluster]:
    """Two brokers for all tests of one worker: they start in half a minute.  Tests take names of their own,
    and have the mark `on_rocketmq`."""
    with RocketMqCluster(tmp_path_factory.mktemp("rocketmq"), 2) as cluster:
        yield cluster


on_rocketmq: Final = [pytest.mark.interop, pytest.mark.xdist_group("rocketmq"), pytest.mark.timeout(300)]
"""Marks of a test at the shared cluster: one worker has all of them."""
