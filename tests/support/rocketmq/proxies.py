"""RocketMQ's proxy in cluster mode: its gRPC door, in front of the brokers that a name server knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.support.processes.ports import free_port
from tests.support.rocketmq.java_process import START_SECONDS, JavaProcess
from tests.support.waiting import wait_until

CLUSTER: Final = "tests"
_HEAP_MIB: Final = 128
_READY: Final = "startup successfully"


class ProxyProcess(JavaProcess):
    """A proxy at `port`.  `settings`: beyond those of all tests."""

    def __init__(
        self,
        directory: Path,
        name_server_port: int,
        name: str = "proxy",
        settings: dict[str, Any] | None = None,
        *,
        lives_long: bool = False,
    ) -> None:
        self.port = free_port()
        self._starts = 0
        said = {
            "rocketMQClusterName": CLUSTER,
            "namesrvAddr": f"127.0.0.1:{name_server_port}",
            "proxyMode": "cluster",
            "localServeAddr": "127.0.0.1",
            "grpcServerPort": self.port,
            "remotingListenPort": free_port(),
            "transactionHeartbeatPeriodSecond": 1,  # until then brokers know nobody to ask after a transaction
            **(settings or {}),
        }
        path = directory / f"{name}.json"
        path.write_text(json.dumps(said))
        arguments = ["-pm", "cluster", "-pc", str(path)]
        main = "org.apache.rocketmq.proxy.ProxyStartup"
        super().__init__(directory, name, main, _HEAP_MIB, arguments, lives_long=lives_long)

    def start(self) -> None:
        super().start()
        self._starts += 1

    def wait_ready(self) -> None:
        """Wait until it says so: before that it listens, and answers nobody."""
        wait_until(self._is_ready, self.log_text, START_SECONDS)

    def _is_ready(self) -> bool:
        return self.listens(self.port) and self._log.read_text(errors="replace").count(_READY) >= self._starts
