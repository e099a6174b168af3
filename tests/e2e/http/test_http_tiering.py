"""Tables that become topics, by REST and the command line, on a server that is lost and made anew."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entrepot.gateway.cli.app import run
from tests.e2e.http.documented import Described
from tests.e2e.http.steps import event, is_problem, publish
from tests.support.http.client import http_client
from tests.support.processes.command_line import build_commands_once
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until

V1 = "/api/v1"


def settings(directory: Path) -> dict[str, str]:
    soon = {"tier.max_age_seconds": "0.1", "tier.requests_per_hour": "1000000"}
    return {"tier.url": (directory / "cold").as_uri(), "mqtt.enabled": "false", **soon}


@pytest.fixture
def entrepot(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """The command line: its exit code, and what it says."""
    build_commands_once(monkeypatch)

    def run_it(*arguments: str) -> tuple[int, str]:
        capfd.readouterr()
        code = run(arguments)
        out, err = capfd.readouterr()
        return code, out + err

    return run_it


@pytest.mark.failure_also("A broker is lost with its disk, and its tables are there")
@pytest.mark.soak
def test_a_server_that_is_lost_with_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entrepot: Callable[..., tuple[int, str]]
) -> None:
    with ServerProcess(tmp_path, settings(tmp_path)) as server:
        with http_client(f"http://{server.address('http')}") as client:
            assert client.put(f"{V1}/topics/orders", json={"queues": 1, "tierSeconds": 10**9}).status_code == 201
            for number in range(3):
                publish(client, "orders", event(number))
            [told] = tiering(client, lambda found: found and found[0]["uploaded"])
            assert told["uploaded"] == [{"queueId": 0, "nextOffset": 3}] and told["lagMessages"] == 0
            assert (told["topic"], told["namespace"], told["problem"]) == ("orders", "default", None)
        server.stop()
        shutil.rmtree(server.data_dir)
        server.start()
        url = f"http://{server.address('http')}"
        monkeypatch.setenv("ENTREPOT_SERVER", url)
        with http_client(url) as client:
            described = Described(client.get("/openapi.json").json())

            def ask(path: str, body: Any) -> Any:
                answer = client.post(f"{V1}{path}", json=body)
                described.check("POST", f"{V1}{path}", answer)
                return answer

            is_problem(ask("/topics/orders:restore", {"tierSeconds": 10**9}), 409, "is its broker alive?")
            is_problem(ask("/topics/others:restore", {"tierSeconds": 1}), 404, "others")
            is_problem(ask("/topics/orders:restore", {}), 400, "tierSeconds")
            is_problem(ask("/topics/orders:restore", {"tierSecond": 1}), 400, "tierSecond")
            code, out = entrepot("tier", "restore", "orders", "--tier-seconds", str(10**9))
            assert code == 1 and "say --force" in out
            code, out = entrepot("tier", "restore", "orders", "--tier-seconds", str(10**9), "--force")
            assert code == 0 and f"topic orders is restored from {told['table']}" in out and "they are lost" in out
            publish(client, "orders", event(3))
            found = client.get(f"{V1}/topics/orders/queues/0/messages?offset=0&limit=10").json()["value"]
            assert [each["queueOffset"] for each in found][:3] == [0, 1, 2]
            [again] = tiering(client, lambda found: found and found[0]["uploaded"] == [{"queueId": 0, "nextOffset": 4}])
            assert again["table"] == told["table"]
            code, out = entrepot("tier", "status")
            assert code == 0 and told["table"] in out

            attached = ask("/tiering:attach", {"url": settings(tmp_path)["tier.url"], "name": "copy"})
            assert attached.status_code == 201
            assert attached.json()["offsets"] == [{"queueId": 0, "minOffset": 0, "maxOffset": 4}]
            is_problem(ask("/tiering:attach", {"url": "s3://me:secret@b"}), 400, "credentials")
            code, out = entrepot("tier", "attach", "--url", settings(tmp_path)["tier.url"], "--as", "second", "--json")
            assert code == 0 and json.loads(out)["permission"] == "READ"
            assert client.delete(f"{V1}/topics/copy").status_code == 204
            assert tiering(client, bool), "the topic itself is as it was"


@pytest.mark.failure_also("The folder of cold messages is not mounted")
@pytest.mark.soak
def test_an_object_store_that_is_away_is_told_and_accepted_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entrepot: Callable[..., tuple[int, str]]
) -> None:
    with ServerProcess(tmp_path, settings(tmp_path)) as server:
        with http_client(f"http://{server.address('http')}") as client:
            assert client.put(f"{V1}/topics/orders", json={"queues": 1, "tierSeconds": 10**9}).status_code == 201
            publish(client, "orders", event(0))
            tiering(client, lambda found: found and found[0]["uploaded"])
        server.stop()
        (tmp_path / "cold").rename(tmp_path / "away")
        server.start()
        url = f"http://{server.address('http')}"
        monkeypatch.setenv("ENTREPOT_SERVER", url)
        with http_client(url) as client:
            [told] = tiering(client, lambda found: found and "is the folder mounted?" in (found[0]["problem"] or ""))
            assert "entrepot tier accept --all" in told["problem"]
            is_problem(client.post(f"{V1}/tiering:accept", json={"topic": "others"}), 404, "others")
            for body in ({}, {"topic": ""}, {"topic": "orders", "all": True}):
                assert client.post(f"{V1}/tiering:accept", json=body).status_code == 400
            assert entrepot("tier", "accept")[0] == entrepot("tier", "accept", "", "--yes")[0] == 2
            assert entrepot("tier", "accept", "orders", "--all")[0] == 2
            code, out = entrepot("tier", "accept", "orders")
            assert code == 2 and "--yes" in out, "without a terminal it wants to be told so"
            code, out = entrepot("tier", "accept", "orders", "--yes")
            assert code == 0 and "topic orders" in out
            code, out = entrepot("tier", "accept", "--all", "--yes")
            assert code == 0 and "all tables" in out
            publish(client, "orders", event(1))
            tiering(client, lambda found: found and not found[0]["problem"] and found[0]["lagMessages"] == 0)
            [seen] = client.get(f"{V1}/audit?limit=1").json()["value"]
            assert "object store accepted" in str(seen)


def tiering(client: Any, is_wanted: Any) -> list[dict[str, Any]]:
    """What the server tells of tiered topics, once that is as wanted."""
    found: list[dict[str, Any]] = []

    def is_there() -> bool:
        found[:] = client.get(f"{V1}/tiering").json()["value"]
        return bool(is_wanted(found))

    wait_until(is_there, "the tier has come so far")
    return found
