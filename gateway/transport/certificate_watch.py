"""CertificateWatch: looks at the files of all TLS listeners from time to time, and on SIGHUP."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

from entrepot.gateway.transport.certificates import ServerCertificates


class CertificateWatch:
    """One timer for all. SIGHUP reads them at once, changed or not."""

    def __init__(self, watched: Sequence[ServerCertificates], seconds: float) -> None:
        self._watched = tuple(watched)
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to look, if there is any certificate."""
        if self._watched:
            self._loop.add_signal_handler(signal.SIGHUP, self._reload)
            self._look()

    def close(self) -> None:
        """Stop looking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._loop.remove_signal_handler(signal.SIGHUP)

    def _look(self) -> None:
        for certificates in self._watched:
            certificates.reload_if_changed()
        self._timer = self._loop.call_later(self._seconds, self._look)

    def _reload(self) -> None:
        for certificates in self._watched:
            certificates.reload()
