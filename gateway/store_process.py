"""StoreProcess: the store process of `entrepot serve --workers`, as the parent of the workers sees it.

Gateways reach it by a Unix socket in a private directory: it has no port. The parent keeps the socket, so that a
restarted store listens where its predecessor did.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import structlog

from entrepot.domain.route import UNIX
from entrepot.gateway.children import LifeLine, ProofOfLife, start_child
from entrepot.gateway.deployment import serve_store
from entrepot.gateway.process import run_process
from entrepot.gateway.security.self_made_certificate import FILE_NAME as GRPC_CERTIFICATE
from entrepot.gateway.security.setup_token import FILE_NAME
from entrepot.gateway.settings import LoadedSettings
from entrepot.gateway.transport.binding import bind_private

_NO_TLS: Final[dict[str, Any]] = {"tls_certificate": None, "tls_key": None, "tls_ca": None, "tls_names": []}
log = structlog.get_logger(__name__)


class StoreProcess:
    """The store process: `start` it before the workers, `stop` it after them. It is told to stop when the parent and
    all workers have ended, however they ended."""

    def __init__(self, loaded: LoadedSettings, directory: Path) -> None:
        """Raise OSError where the directory can have no socket."""
        path = directory / "store"
        self._loaded = loaded
        self._address = f"{UNIX}{path}"
        self._listener = bind_private(path)
        self._pid = 0
        self._is_ready = False
        self.line = LifeLine()
        self._proof = ProofOfLife(None)
        self.started = 0.0
        """Time of the last start, by `time.monotonic`."""

    def of_gateways(self) -> LoadedSettings:
        """The settings of gateways over this store alone; their files are beside its data, as with plain `serve`."""
        tree = self._loaded.settings
        cluster = {"name_servers": [], "brokers": [self._address], "route_cache": None, "zone": "", **_NO_TLS}
        token = tree.security.setup_token_file or tree.store.data_dir / FILE_NAME
        certificate = tree.grpc.tls_self_made_file or tree.store.data_dir / GRPC_CERTIFICATE
        changes = {
            "cluster": tree.cluster.model_copy(update=cluster),
            "rocketmq": tree.rocketmq.model_copy(update={"endpoints": []}),
            "grpc": tree.grpc.model_copy(update={"tls_self_made_file": certificate}),
            "security": tree.security.model_copy(update={"setup_token_file": token}),
        }
        return LoadedSettings(tree.model_copy(update=changes), self._loaded.origins)

    def start(
        self,
        in_child: Callable[[], object],
        meanwhile: Callable[[], object] = lambda: None,
        silence_seconds: float | None = None,
    ) -> bool:
        """Start it and wait until the store is open; True if it is. `in_child` is called first in the child,
        `meanwhile` here while it starts. `silence_seconds`: as of ProofOfLife."""
        proof = ProofOfLife(silence_seconds)

        def work(ready: int) -> int:
            in_child()
            self.line.let_go()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

            def main(loaded: LoadedSettings) -> Awaitable[int]:
                self.line.stop_at_its_end()
                return serve_store(loaded, self._listener, lambda: os.write(ready, b"1"))

            return run_process(self._of_store(), main, proof)

        self._is_ready = False
        self.started = time.monotonic()
        self._is_ready = start_child(work, self._known, meanwhile)
        proof.give()  # while it opened, it may have been silent
        self._proof = proof
        return self._is_ready

    def kill_if_silent(self) -> None:
        """Kill it if it has given no sign of life for too long: `ended` tells."""
        if self._pid and self._is_ready and self._proof.is_overdue:
            log.error("the store's process is stuck: it is killed", pid=self._pid)
            os.kill(self._pid, signal.SIGKILL)

    def _known(self, pid: int) -> None:
        self._pid = pid

    def _of_store(self) -> LoadedSettings:
        """The settings of the store: by name and number the broker that plain `serve` opens for other machines."""
        tree = self._loaded.settings
        changes = {
            "cluster": tree.cluster.model_copy(update={"name_servers": [], **_NO_TLS}),
            "broker": tree.broker.model_copy(update={"advertise": self._address}),
        }
        return LoadedSettings(tree.model_copy(update=changes), self._loaded.origins)

    def ended(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs."""
        if self._pid == 0:
            return 1
        found, status = os.waitpid(self._pid, os.WNOHANG)
        if not found:
            return None
        self._pid = 0
        return os.waitstatus_to_exitcode(status)

    def stop_starting(self) -> None:
        """Terminate a start that is not ready."""
        if self._pid and not self._is_ready:
            self._tell()

    def stop(self) -> None:
        """Tell it to stop, and wait: closing takes as long as its last checkpoint."""
        if self._pid:
            self._tell()
            os.waitpid(self._pid, 0)
            self._pid = 0

    def _tell(self) -> None:
        try:
            os.kill(self._pid, signal.SIGTERM)
        except ProcessLookupError:
            log.debug("the store's process has ended already", pid=self._pid)
