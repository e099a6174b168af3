"""schemathesis over the OpenAPI document: whatever is sent by it, nothing is answered with a server error, nor
otherwise than the document says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from entrepot.gateway.settings import Settings
from tests.e2e.http.steps import event, publish
from tests.support.http.client import http_client
from tests.support.http.server import serving
from tests.support.seed import SEED

EXAMPLES = 6
LEFT_OUT = (
    r"/topics/\{topic\}/events$|/api/v1/brokers|/api/v1/controllers|/topics/\{name\}:restore$|/tiering:(attach|accept)$"
)
"""Streams go on until the client ends them; of brokers and tables a store in memory has none, and answers with 501."""


def fill(url: str) -> None:
    """What has the names that are tried first."""
    with http_client(url) as client:
        client.put("/api/v1/namespaces/0", json={})
        for below in ("", "/namespaces/0"):
            for kind in ("topics", "groups"):
                assert client.put(f"/api/v1{below}/{kind}/0", json={}).status_code == 201
            publish(client, "0", event(1), below=below)
            body = {"source": "0", "sink": "https://receiver.example/", "protocol": "HTTP"}
            config = {"handshake": "off"}
            assert client.post(f"{below}/subscriptions", json={**body, "config": config}).status_code == 201


@pytest.mark.interop
@pytest.mark.timeout(400)
def test_what_the_document_allows_is_answered_as_it_says(tmp_path: Path) -> None:
    print(f"ENTREPOT_TEST_SEED={SEED}")
    command = shutil.which("schemathesis", path=str(Path(sys.executable).parent))
    assert command is not None
    settings = Settings(http={"max_wait_seconds": 0.1})
    with serving("memory", tmp_path, settings) as server:
        fill(server.url)
        arguments = [
            "run",
            f"{server.url}/openapi.json",
            *("--url", server.url),
            *(
                "--checks",
                "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
            ),
            *("--phases", "examples,fuzzing"),
            *("--max-examples", str(EXAMPLES)),
            *("--exclude-path-regex", LEFT_OUT),
            *("--seed", str(SEED)),
            "--suppress-health-check=all",
            "--request-timeout=20",
            "--no-color",
        ]
        done = subprocess.run([command, *arguments], capture_output=True, text=True, timeout=380, cwd=tmp_path)
    print(done.stdout[-20_000:])
    assert done.returncode == 0, done.stdout[-8000:]
    assert "Tested: 0" not in done.stdout
