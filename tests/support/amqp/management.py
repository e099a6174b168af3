"""The management API of our server and of Debian's rabbitmq-server, for tests that hold both to the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pika  # type: ignore[import-untyped]

from tests.support.amqp.rabbitmq import RabbitMQ
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.processes.ports import free_port
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS
from tests.tiers.marks import interop_only

BOTH: Final = ("entrepot", interop_only("rabbitmq"))
"""Parameters of a test: ours in the default tier, RabbitMQ beside it in the interop tier."""
PLUGINS: Final = ("rabbitmq_management", "rabbitmq_prometheus")
SETTINGS: Final = {
    **CHEAP_FLAGS,
    "security.initial_admin": "guest",
    "security.initial_admin_password": "guest",
}


@dataclass(frozen=True)
class Managed:
    """A running server with the user guest, who may do everything.  `port`: of AMQP.  `url`: of HTTP."""

    name: str
    port: int
    url: str
    metrics: str = ""
    """Where the metrics of RabbitMQ's names are."""

    @property
    def is_ours(self) -> bool:
        return self.name == "entrepot"

    def ask(self, method: str, path: str, body: Any = None, user: str = "guest", password: str = "") -> httpx2.Response:
        """The answer of a path below `/api`; the password is the user's name unless given."""
        auth = (user, password or user)
        url = f"{self.url}/api{path}"
        return httpx2.request(method, url, json=body, auth=auth, trust_env=False, timeout=PATIENCE_SECONDS)

    def get(self, path: str, user: str = "guest") -> Any:
        """What a path tells."""
        answer = self.ask("GET", path, user=user)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    def do(self, method: str, path: str, body: Any = None) -> int:
        """Make a change; the status of its answer, which is one of success."""
        answer = self.ask(method, path, body)
        assert answer.is_success, (path, answer.text)
        return answer.status_code

    @contextmanager
    def amqp(self, user: str = "guest", password: str = "", vhost: str = "/") -> Iterator[Any]:
        shown = pika.PlainCredentials(user, password or user)
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, vhost, shown))
        try:
            yield connection
        finally:
            if connection.is_open:
                connection.close()


@contextmanager
def running(name: str, directory: Path) -> Iterator[Managed]:
    """The server of a name, with an empty store."""
    if name == "rabbitmq":
        port = free_port()
        lines = ("prometheus.tcp.ip = 127.0.0.1", f"prometheus.tcp.port = {port}", "collect_statistics_interval = 500")
        with RabbitMQ(directory, PLUGINS, lines) as node:
            url = f"http://127.0.0.1:{node.management_port}"
            yield Managed(name, node.port, url, f"http://127.0.0.1:{port}/metrics")
        return
    with ServerProcess(directory, SETTINGS) as server:
        url = f"http://{server.address('http')}"
        yield Managed(name, server.port("amqp"), url, f"{url}/metrics/rabbitmq")
        assert server.stop() == 0, server.log_text()
        assert "Traceback" not in server.log_text(), server.log_text()


@contextmanager
def each_once(place: Callable[[str], Path]) -> Iterator[Callable[[str], Managed]]:
    """Servers by name, which begin with their first use."""
    begun: dict[str, Managed] = {}
    with ExitStack() as stack:

        def find(name: str) -> Managed:
            if name not in begun:
                begun[name] = stack.enter_context(running(name, place(name)))
            return begun[name]

        yield find
