"""A headless Chromium, and a server of pages for it that tells what they report."""

from __future__ import annotations

import http.client
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

STARTING_SECONDS = 60.0
FOREIGN_NAME = "evil.example"
"""Leads to this machine, for the browser alone."""


def is_installed() -> bool:
    return shutil.which("chromium") is not None


def _command(directory: Path) -> list[str]:
    return [
        *("chromium", "--headless=new", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        f"--user-data-dir={directory / 'profile'}",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]


def page_as_shown(directory: Path, url: str) -> str:
    """The markup of a page when its scripts have done their work.  It reaches this machine and nothing else."""
    alone = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    command = [*_command(directory), alone, "--virtual-time-budget=20000", "--dump-dom", url]
    done = subprocess.run(command, capture_output=True, timeout=STARTING_SECONDS, check=True)
    return done.stdout.decode()


class Chromium:
    """One process with a profile of its own, which opens one page."""

    def __init__(self, directory: Path, url: str) -> None:
        self._command = [*_command(directory), f"--host-resolver-rules=MAP {FOREIGN_NAME} 127.0.0.1", url]
        self._log = directory / "chromium.log"

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(STARTING_SECONDS)
        if kind is not None:
            print(self._log.read_text(errors="replace")[-4000:])


class PageServer:
    """Serves one page at every path that begins with `/page`, takes reports at `/report`, and hands all else to a port:
    so a page of its name is at home there, as if that name had begun to lead there (DNS rebinding)."""

    def __init__(self, behind: int) -> None:
        pages = self
        self.page = ""
        self.reports: queue.Queue[dict[str, Any]] = queue.Queue()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if self.path.startswith("/page"):
                    self._send(200, "text/html; charset=utf-8", pages.page.encode())
                elif self.path == "/report":
                    pages.reports.put(json.loads(body))
                    self._send(200, "application/json", b"{}")
                else:
                    self._hand_over(body)

            do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = answer

            def _hand_over(self, body: bytes) -> None:
                there = http.client.HTTPConnection("127.0.0.1", behind, timeout=STARTING_SECONDS)
                there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in ("connection", "upgrade"):
                        there.putheader(name, value)
                there.endheaders(body)
                answer = there.getresponse()
                self._send(answer.status, answer.getheader("content-type") or "text/plain", answer.read())
                there.close()

            def _send(self, status: int, media_type: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", media_type)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
                """Nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """The browser is killed in the end, with its connections."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
