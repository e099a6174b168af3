"""Other people's clients: Python's cloudevents in both its APIs, npm's, curl, a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cloudevents.core.bindings import http as binding
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from cloudevents.v1 import http as legacy

from entrepot.gateway.settings import Settings
from tests.e2e.http.steps import event, publish, receive
from tests.e2e.webhooks.conftest import WEBHOOKS, Subscribe
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer, serving
from tests.support.http.webhook_receiver import WebhookReceiver, body_of
from tests.support.waiting import PATIENCE_SECONDS, wait_until

PEERS = Path(__file__).parents[2] / "peers"
SCRIPTS = Path(__file__).parents[2] / "support" / "http" / "cloudevents_peers"
TIME = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)


def sdk_event(number: int) -> CloudEvent:
    attributes: dict[str, Any] = {
        "id": f"p{number}", "source": "/py", "type": "reading", "subject": "line1/temp", "time": TIME,
        "datacontenttype": "application/json", "unit": "°C",
    }  # fmt: skip
    return CloudEvent(attributes, {"n": number})


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_python_publishes(client: httpx2.Client, topic: str, mode: str) -> None:
    write = binding.to_binary if mode == "binary" else binding.to_structured
    message = write(sdk_event(1), JSONFormat())
    answer = client.post(f"/topics/{topic}:publish", headers=dict(message.headers), content=message.body)
    assert answer.status_code == 200, answer.text
    [received] = receive(client, topic)
    found = received["event"]
    assert (found["id"], found["unit"], found["data"]) == ("p1", "°C", {"n": 1})
    assert datetime.fromisoformat(found["time"]) == TIME


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_python_s_legacy_api_publishes(client: httpx2.Client, topic: str, mode: str) -> None:
    made = legacy.CloudEvent({"type": "reading", "source": "/old", "id": "o1", "unit": "c"}, {"n": 1})
    headers, body = (legacy.to_binary if mode == "binary" else legacy.to_structured)(made)
    assert client.post(f"/topics/{topic}:publish", headers=headers, content=body).status_code == 200
    [received] = receive(client, topic)
    assert (received["event"]["id"], received["event"]["unit"], received["event"]["data"]) == ("o1", "c", {"n": 1})


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_python_reads_what_webhooks_send(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe, mode: str
) -> None:
    subscribe(config={"mode": mode})
    sent = event(1, data={"n": 1}, subject="über", unit="°C", time="2026-11-21T05:00:00Z",
                 datacontenttype="application/json")  # fmt: skip
    publish(client, topic, sent)
    [request] = receiver.wait(topic, 1)
    message = binding.HTTPMessage(request["headers"], body_of(request))
    read = binding.from_http_event(message, JSONFormat())
    assert (read.get_id(), read.get_source(), read.get_type()) == ("e1", "/line1", "reading")
    assert (read.get_subject(), read.get_extension("unit"), read.get_data()) == ("über", "°C", {"n": 1})
    assert read.get_time() == TIME
    old = legacy.from_http(request["headers"], body_of(request))
    assert (old["id"], old["source"], old.data) == ("e1", "/line1", {"n": 1})


def node(script: str) -> list[str]:
    """The command, run where npm's packages are found.  Skips where they are not."""
    if shutil.which("node") is None or not (PEERS / "node_modules" / "cloudevents").is_dir():
        pytest.skip("node or npm's cloudevents is not here: make peers installs it")
    place = PEERS / "node_modules" / f".entrepot-{script}"
    place.write_text((SCRIPTS / script).read_text())  # modules are looked for from where a script lies
    return ["node", str(place)]


@pytest.mark.interop
def test_npm_cloudevents_publishes_and_receives(server: HttpServer, topic: str) -> None:
    command = [*node("publish.mjs"), server.url, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name: one["data"]["n"] for name, one in found.items()} == {
        "binary": 1, "structured": 2, "batch-1": 3, "batch-2": 4, "emitted": 5,
    }  # fmt: skip
    assert {one["unit"] for one in found.values()} == {"celsius"}


@pytest.mark.interop
def test_npm_cloudevents_reads_webhooks_in_every_mode(client: httpx2.Client, topic: str, subscribe: Subscribe) -> None:
    with subprocess.Popen(node("receive.mjs"), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            sink = f"http://127.0.0.1:{int(process.stdout.readline())}/"
            for mode in ("binary", "structured", "batched"):
                subscribe(sink=sink, config={"mode": mode, "handshake": "required"})
            publish(client, topic, event(1, data={"n": 1}, unit="c", datacontenttype="application/json"))
            found = [json.loads(process.stdout.readline()) for _ in range(3)]
        finally:
            process.kill()
    assert found == [{"id": "e1", "data": {"n": 1}, "unit": "c", "type": "reading"}] * 3


@pytest.mark.interop
def test_curl(server: HttpServer, client: httpx2.Client, topic: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not here")
    url = f"{server.url}/topics/{topic}"

    def curl(*arguments: str) -> str:
        done = subprocess.run(
            ["curl", "-sS", "-m", str(PATIENCE_SECONDS), *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout

    headers = [part for name, value in (("specversion", "1.0"), ("id", "c1"), ("source", "/sh"), ("type", "t"))
               for part in ("-H", f"ce-{name}: {value}")]  # fmt: skip
    assert curl("-X", "POST", f"{url}:publish", *headers, "-H", "content-type: text/plain", "-d", "hello") == "{}"
    received = json.loads(curl("-X", "POST", f"{url}/eventsubscriptions/g:receive?maxWaitTime=5"))
    assert received["value"][0]["event"]["data"] == "hello"
    with subprocess.Popen(["curl", "-sSN", f"{url}/events?start=earliest"], stdout=subprocess.PIPE, text=True) as live:
        assert live.stdout is not None
        lines = iter(live.stdout.readline, "")
        data = next(line for line in lines if line.startswith("data: "))
        live.kill()
    assert json.loads(data.removeprefix("data: "))["id"] == "c1"


PAGE = """<!doctype html><script>
const source = new EventSource("%s");
source.onmessage = (message) => fetch("/seen", {method: "POST", body: JSON.stringify(
  {id: JSON.parse(message.data).id, cursor: message.lastEventId, data: JSON.parse(message.data).data})});
source.onopen = () => fetch("/open", {method: "POST", body: "1"});
</script>"""


class Page:
    """A page's server, of an origin of its own."""

    def __init__(self, url: str) -> None:
        self.seen: list[dict] = []
        self.opened = 0
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer((PAGE % url).encode(), "text/html")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/seen":
                    page.seen.append(json.loads(body))
                else:
                    page.opened += 1
                self._answer(b"", "text/plain")

            def _answer(self, body: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.mark.interop
def test_a_page_in_a_browser_follows_a_topic(tmp_path: Path) -> None:
    """Headless Chromium with EventSource, from another origin; it goes on where it was when the stream is cut."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("Chromium is not here")
    settings = Settings(webhooks=WEBHOOKS, http={"allowed_origins": ["*"]})
    with (
        serving("embedded", tmp_path / "data", settings) as server,
        http_client(server.url) as client,
    ):
        publish(client, "page", event(0))
        page = Page(f"{server.url}/topics/page/events?start=earliest")
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        command = [browser, *flags, f"--user-data-dir={tmp_path / 'profile'}", page.origin]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: len(page.seen) >= 1, "the page")
            publish(client, "page", *[event(n, data={"n": n}) for n in range(1, 20)])
            wait_until(lambda: len(page.seen) >= 20, "the page")
            opened = page.opened
            server.call(cut_streams(server))
            publish(client, "page", *[event(n) for n in range(20, 30)])
            wait_until(lambda: len(page.seen) >= 30, "the page")
            assert page.opened > opened
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
            page.close()
    assert sorted(one["id"] for one in page.seen) == sorted(f"e{n}" for n in range(30))
    assert all(one["cursor"] for one in page.seen)


def cut_streams(server: HttpServer) -> Any:
    """Closes every connection, as a proxy does that is restarted."""

    def cut() -> None:
        for connection in tuple(server.listener._server.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()

    return cut
