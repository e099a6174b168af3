"""A door before an object store that refuses, is slow, and loses answers, but never says that something is done that
is not."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

MAX_DELAY_SECONDS = 1.0
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "keep-alive"})


class Fault(StrEnum):
    """Fates of a request."""

    NONE = "none"
    REFUSED = "refused"  # 503, and not done
    RESET = "reset"  # cut off, and not done
    LOST = "answer lost"  # done, and cut off
    CUT = "answer cut"  # done, and half of the answer
    SLOW = "slow"


class FaultyProxy:
    """Before the server at `port`.  `rate`: part of the requests with a fault; `is_away`: all are refused."""

    def __init__(self, port: int, random: Random) -> None:
        self.rate = 0.0
        self.is_away = False
        self.faults: Counter[Fault] = Counter()
        self.requests = 0
        self._target, self._random = port, random
        self._lock = threading.Lock()

    def fault(self) -> Fault:
        """The fate of the next request."""
        with self._lock:
            self.requests += 1
            found = Fault.REFUSED if self.is_away else Fault.NONE
            if not self.is_away and self._random.random() < self.rate:
                found = self._random.choice([each for each in Fault if each is not Fault.NONE])
            self.faults[found] += 1
            return found

    def delay_seconds(self) -> float:
        with self._lock:
            return self._random.uniform(0, MAX_DELAY_SECONDS)

    def ask(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """The server's own answer: status, headers, and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self._target, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


@contextmanager
def faulty_proxy(port: int, random: Random) -> Iterator[tuple[FaultyProxy, str]]:
    """A proxy before a server on loopback, and its own URL."""
    proxy = FaultyProxy(port, random)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def handle_one_request(self) -> None:
            with suppress(ConnectionError):  # a client that was killed
                super().handle_one_request()

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            fault = proxy.fault()
            if fault is Fault.REFUSED:
                self._answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
                return
            if fault is Fault.RESET:
                self.close_connection = True
                return
            if fault is Fault.SLOW:
                time.sleep(proxy.delay_seconds())
            status, headers, data = proxy.ask(self.command, self.path, self.headers, body)
            if fault is Fault.LOST:
                self.close_connection = True
                return
            self._answer(status, headers, data, cut=fault is Fault.CUT)

        def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes, *, cut: bool = False) -> None:
            self.send_response_only(status)
            length = str(len(data))
            for name, value in headers:
                if name.lower() == "content-length":
                    length = value  # that of a HEAD is of what is not sent
                elif name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD" and status not in (204, 304):
                self.wfile.write(data[: len(data) // 2] if cut else data)
            if cut:
                self.close_connection = True

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _do

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
