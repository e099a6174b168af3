"""A server for commands under test: it keeps what it is asked, and answers what it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Stub:
    """The server, as a test has it."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    answers: list[tuple[int, bytes]] = field(default_factory=list)

    def will_answer(self, body: Any = None, status: int = 200) -> None:
        self.answers.append(
            (status, body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode())
        )


@contextmanager
def stub_server() -> Iterator[Stub]:
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            stub.asked.append(Asked(self.command, self.path, headers, body))
            status, content = stub.answers.pop(0)
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        stub.url = f"http://127.0.0.1:{listener.server_port}"
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield stub
        finally:
            listener.shutdown()
            thread.join()
