"""A real browser, with a page of another origin, of another port, and of a name that begins to lead to the server: by
all ways that pages have of sending something, to every route.  Nothing is done for them.

`test_http_foreign_pages.py` sends the same headers without a browser.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.support.http.chromium import (
    FOREIGN_NAME,
    STARTING_SECONDS,
    Chromium,
    PageServer,
    is_installed,
    page_as_shown,
)
from tests.support.http.foreign_pages import PUBLIC, Attempt, attempts, client_of, prepare, state
from tests.support.processes.server import ServerProcess

PAGE = Path(__file__).with_name("foreign_page.html")
LET_IN = ("/api/v1/topics/known", "/api/v1/groups/workers")
STREAM = "/topics/known/eventsubscriptions/workers:stream"


def stage(name: str, server: ServerProcess, asked: list[Attempt]) -> dict[str, Any]:
    """What one page tries: which server, which requests, and WebSockets."""
    http, ws = server.port("http"), server.port("ws")
    sockets = [
        [f"ws://127.0.0.1:{http}/mqtt", "mqtt"],
        [f"ws://127.0.0.1:{ws}/mqtt", "mqtt"],
        [f"ws://127.0.0.1:{http}{STREAM}", "cloudevents.json"],
    ]
    return {
        "name": name,
        "target": f"http://127.0.0.1:{http}",
        "attempts": [asdict(one) for one in asked],
        "sockets": sockets,
        "next": None,
    }


@pytest.mark.interop
@pytest.mark.skipif(not is_installed(), reason="Chromium is not installed (make peers)")
def test_no_page_changes_anything(tmp_path: Path) -> None:
    """The last page may do what it likes, to another server that lets it: so the others are refused, not broken."""
    lenient = {"http.allowed_origins": '["*"]', "mqtt.ws_origins": '["*"]', "http.hosts": '["*"]'}
    for name in ("held", "open"):
        (tmp_path / name).mkdir()
    with (
        ServerProcess(tmp_path / "held", {"mqtt.ws_port": "0"}) as server,
        ServerProcess(tmp_path / "open", {"mqtt.ws_port": "0", **lenient}) as lets_in,
        client_of(server) as client,
        client_of(lets_in) as other,
    ):
        for each in (client, other):
            prepare(each)
        asked = [one for one in attempts(client) if not PUBLIC.fullmatch(one.path)]
        few = [one for one in asked if one.path in LET_IN]
        stages = [stage(name, server, asked) for name in ("foreign", "same site", "rebound")]
        stages.append(stage("let in", lets_in, few))
        page = PAGE.read_text()
        before, before_open = state(client), state(other)
        with PageServer(server.port("http")) as pages:
            homes = (f"http://{FOREIGN_NAME}:{pages.port}", f"http://127.0.0.1:{pages.port}")
            urls = [f"{homes[at]}/page?stage={number}" for number, at in enumerate((0, 1, 0, 0))]
            for one, following in zip(stages, urls[1:], strict=False):
                one["next"] = following
            stages[2]["target"] = homes[0]
            pages.page = page.replace("/*PLAN*/null", json.dumps({"stages": stages}))
            with Chromium(tmp_path, urls[0]):
                found = {
                    report["name"]: report for report in (pages.reports.get(timeout=STARTING_SECONDS) for _ in stages)
                }
        assert state(client) == before
        assert state(other) != before_open
    for report in found.values():
        assert "error" not in report, report
    changing, posts = [one for one in asked if one.changes], [one for one in asked if one.method == "POST"]
    for name in ("foreign", "same site"):
        ways = found[name]["found"]
        assert ways["plain"] == ways["typeless"] == {"opaque": len(posts)}
        assert ways["cors"] == {"failed": len(changing)}
        assert ways["socket"] == {"refused": 3}
    assert found["rebound"]["found"] == {"json": {"421": len(asked)}}
    assert found["let in"]["found"]["socket"] == {"open": 3}
    assert "failed" not in found["let in"]["found"]["cors"]


@pytest.mark.interop
@pytest.mark.skipif(not is_installed(), reason="Chromium is not installed (make peers)")
def test_the_page_of_the_api_is_whole_without_the_internet(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, client_of(server) as client:
        document = client.get("/openapi.json").json()
        shown = page_as_shown(tmp_path, f"http://127.0.0.1:{server.port('http')}/docs#putTopic")
    ids = {told["operationId"] for item in document["paths"].values() for told in item.values()}
    assert {each for each in ids if f'id="{each}"' not in shown} == set()
    assert 'data-state="shown"' in shown
    assert "Created: as it is now" in shown and "retentionSeconds" in shown, "the operation that the link names is open"
