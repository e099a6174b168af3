"""A small server on loopback that fails and lies as it is told to.

It speaks S3's language, and GCS's dialect of it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from entrepot.broker.tiered.store_options import StoreOptions

BUCKET = "things"
SECRET = "do-not-show-me"
"""Part of every key, and of every answer of the server: no message may have it."""


@dataclass
class Answer:
    """An answer instead of the true one, or, with `after`, in its place once the deed is done; 0: cut off."""

    status: int
    code: str = ""
    after: bool = False
    method: str = ""


@dataclass
class ObjectServer:
    """`faults` are used up, one a request; `always` is not.  The rest are lies, one each."""

    faults: deque[Answer] = field(default_factory=deque)
    always: Answer | None = None
    creates_over: bool = False
    looks_first: threading.Barrier | None = None
    """Writers look for an object, wait for each other, and write: a race is open to all of them."""
    ignores_ranges: bool = False
    keeps_deleted: bool = False
    stale_list: bool = False
    unsorted_list: bool = False
    garbles: bool = False
    refuses_deletes: bool = False
    found: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    endpoint: str = ""

    def fault(self, method: str) -> Answer | None:
        with self.lock:
            if self.faults and self.faults[0].method in ("", method):
                return self.faults.popleft()
        if self.always is not None and self.always.method in ("", method):
            return self.always
        return None

    def store(self, key: str, body: bytes, only_new: bool) -> bool:
        if self.looks_first is not None and only_new:
            is_there = key in self.found
            if not is_there and "race" in key:
                self.looks_first.wait(10)
            if not is_there:
                self.found[key] = body
            return not is_there
        with self.lock:
            if only_new and key in self.found and not self.creates_over:
                return False
            self.found[key] = body
            return True


class _Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    told: ObjectServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - of the library
        pass

    def _handle(self) -> None:
        url = urlsplit(self.path)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.told.requests.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
        fault = self.told.fault(self.command)
        if fault is not None and not fault.after:
            self._refuse(fault.status, fault.code)
            return
        if bucket != BUCKET:
            self._refuse(404, "NoSuchBucket")
            return
        reply = self._reply(key, parse_qs(url.query, keep_blank_values=True), body)
        if fault is not None:
            self._refuse(fault.status, fault.code)
        else:
            reply()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle

    def _reply(self, key: str, query: dict[str, list[str]], body: bytes) -> Callable[[], None]:
        told = self.told
        if self.command == "PUT":
            only_new = self.headers.get("if-none-match") == "*" or self.headers.get("x-goog-if-generation-match") == "0"
            if told.store(key, body, only_new):
                return lambda: self._send(200, b"", {"x-goog-generation": "1"})
            return lambda: self._refuse(412, "PreconditionFailed")
        if self.command == "POST" and "delete" in query:
            return self._delete(body)
        if "list-type" in query:
            listed = _list(told, query)
            return lambda: self._send(200, listed)
        found = told.found.get(key)
        if found is None:
            return lambda: self._refuse(404, "NoSuchKey")
        if self.command == "DELETE":
            told.found.pop(key, None)
            return lambda: self._send(204, b"")
        return lambda: self._give(found)

    def _delete(self, body: bytes) -> Callable[[], None]:
        gone = [each.text or "" for each in ElementTree.fromstring(body).iter() if each.tag.endswith("Key")]
        if not (self.told.keeps_deleted or self.told.refuses_deletes):
            for each in gone:
                self.told.found.pop(each, None)
        if self.told.refuses_deletes:
            lines = "".join(
                f"<Error><Key>{escape(each)}</Key><Code>AccessDenied</Code><Message>{SECRET}</Message></Error>"
                for each in gone
            )
            return lambda: self._send(200, f"<DeleteResult>{lines}</DeleteResult>".encode())
        lines = "".join(f"<Deleted><Key>{escape(each)}</Key></Deleted>" for each in gone)
        return lambda: self._send(200, f"<DeleteResult>{lines}</DeleteResult>".encode())

    def _give(self, data: bytes) -> None:
        if self.told.garbles:
            data = data[::-1]
        asked = self.headers.get("range")
        if asked is None or self.told.ignores_ranges:
            self._send(200, data)
            return
        start, _, end = asked.removeprefix("bytes=").partition("-")
        if int(start) >= len(data):
            self._refuse(416, "InvalidRange")
            return
        part = data[int(start) : int(end) + 1]
        self._send(206, part, {"content-range": f"bytes {start}-{int(start) + len(part) - 1}/{len(data)}"})

    def _refuse(self, status: int, code: str) -> None:
        if not status:
            self.close_connection = True
            return
        text = f"<Error><Code>{code}</Code><Message>{SECRET}</Message></Error>" if code else ""
        self._send(status, text.encode())

    def _send(self, status: int, data: bytes, further: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {"etag": '"1"', "last-modified": formatdate(time.time(), usegmt=True), **(further or {})}
        for name, value in {**headers, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _list(told: ObjectServer, query: dict[str, list[str]]) -> bytes:
    prefix, after = query.get("prefix", [""])[0], query.get("start-after", [""])[0]
    with told.lock:
        keys = sorted(each for each in told.found if each.startswith(prefix) and each > after)
    keys = [] if told.stale_list else keys[::-1] if told.unsorted_list else keys
    lines = "".join(
        f"<Contents><Key>{escape(each)}</Key><Size>{len(told.found[each])}</Size>"
        "<LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>1</ETag></Contents>"
        for each in keys
    )
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{lines}</ListBucketResult>".encode()


def options_for(endpoint: str) -> StoreOptions:
    """Short times: nothing on loopback takes long, and silence is to be found soon."""
    return StoreOptions(
        endpoint=endpoint,
        region="us-east-1",
        allow_http=True,
        request_seconds=5,
        connect_seconds=5,
        retries=2,
        give_up_seconds=5,
        first_pause_seconds=0.005,
        longest_pause_seconds=0.01,
    )


@contextmanager
def object_server() -> Iterator[ObjectServer]:
    """A running one, with an empty bucket."""
    told = ObjectServer()
    served = ThreadingHTTPServer(("127.0.0.1", 0), type("Door", (_Door,), {"told": told}))
    served.daemon_threads = True
    thread = threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    told.endpoint = f"http://127.0.0.1:{served.server_port}"
    try:
        yield told
    finally:
        served.shutdown()
        served.server_close()
        thread.join()
