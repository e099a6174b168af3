"""StoreThread: an event loop in a thread of its own, on which a client of a store runs, for callers that block."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from entrepot.domain.errors import AWAY, Code, EntrepotError

T = TypeVar("T")
PAUSE_SECONDS: Final = 0.2


class StoreThread:
    """Runs requests one caller at a time.  `seconds`: for so long `ask` repeats a request that is refused with one of
    the codes `passing`."""

    def __init__(self, seconds: float, passing: frozenset[Code] = AWAY) -> None:
        self._seconds, self._passing = seconds, passing
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="entrepot-store", daemon=True)
        self._thread.start()

    def opened(self, opening: Callable[[], Coroutine[Any, Any, T]], *, patiently: bool = False) -> T:
        """Return what a client's opening returns, and end the thread if it fails.  `patiently`: repeat it, as `ask`
        does."""
        try:
            return self.ask(opening) if patiently else self.run(opening())
        except BaseException:
            self._stop()
            raise

    def close(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a client's end, and end the thread; nothing where that is over."""
        if self._loop.is_closed():
            return
        with suppress(EntrepotError, OSError):
            self.run(closing())
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a request."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def ask(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a request, and repeat it while a broker is away."""
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                return self.run(ask())
            except EntrepotError as error:
                if error.code not in self._passing or time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE_SECONDS)

    def now(self, look: Callable[[], T]) -> T:
        """Return a value of the loop's own view."""

        async def looked() -> T:
            return look()

        return self.run(looked())
