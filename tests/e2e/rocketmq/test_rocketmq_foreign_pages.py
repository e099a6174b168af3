"""What a browser can send to the gRPC door without asking first is no call: it lacks `TE: trailers`, which pages cannot
set."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.support.http.foreign_pages import client_of, prepare
from tests.support.processes.server import ServerProcess

CALL = "/apache.rocketmq.v2.MessagingService/SendMessage"


def send(server: ServerProcess, body: Path, *headers: str) -> str:
    """curl's report of a call: status, content type, and what the call says of itself."""
    known = "x-mq-client-id: page"  # not even this may a page set
    said = [part for header in (known, *headers) for part in ("-H", header)]
    url = f"http://127.0.0.1:{server.port('grpc')}{CALL}"
    shown = "%{http_code} %{content_type} %header{grpc-status} %header{grpc-message}"
    command = ["curl", "-s", "-m", "10", "--http2-prior-knowledge", "--data-binary", f"@{body}", "-w", shown]
    done = subprocess.run([*command, *said, "-o", str(body.with_name("answer")), url], capture_output=True, check=False)
    return done.stdout.decode()


@pytest.mark.interop
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed (make peers)")
def test_a_page_calls_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, client_of(server) as client:
        prepare(client)

        def stored() -> int:
            return len(client.get("/api/v1/messages?topic=known").json()["value"])

        request = v2.SendMessageRequest()
        message = request.messages.add()
        message.topic.name, message.body = "known", b"stolen"
        message.system_properties.message_id = "0" * 32
        message.system_properties.message_type = v2.NORMAL
        encoded = request.SerializeToString()
        body = tmp_path / "call"
        body.write_bytes(struct.pack(">BI", 0, len(encoded)) + encoded)
        before = stored()
        for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            send(server, body, f"content-type: {media_type}", "origin: http://evil.example")
            send(server, body, f"content-type: {media_type}")
        assert stored() == before
        send(server, body, "content-type: application/grpc", "te: trailers")
        assert stored() == before + 1, body.with_name("answer").read_bytes()
