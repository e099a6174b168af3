"""Several gateways before one broker: each knows the others, and a login at one is a login at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.http.client import http_client
from tests.support.processes.deployment import ClusterProcesses
from tests.support.processes.ports import free_port
from tests.support.waiting import wait_until

ADMIN = {"security.initial_admin": "root", "security.initial_admin_password": "rootpw"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path, ADMIN, name_servers=1, brokers=1, gateways=2) as running:
        yield running


def client_of(cluster: ClusterProcesses, gateway: int) -> httpx2.Client:
    return http_client(f"http://{cluster.gateways[gateway].address('http')}")


def listed(client: httpx2.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/v1/gateways").json()
    return found


def test_gateways_know_each_other_and_share_logins(cluster: ClusterProcesses) -> None:
    with client_of(cluster, 0) as first, client_of(cluster, 1) as second:
        assert first.post("/api/v1/session", json={"name": "root", "password": "rootpw"}).status_code == 200
        second.cookies = httpx2.Cookies(first.cookies)
        for client in (first, second):
            wait_until(lambda client=client: listed(client)["answered"]["answered"] == 2, "both are known")
            rows = listed(client)["value"]
            assert sorted(row["isThis"] for row in rows) == [False, True]
            assert all(row["silentSeconds"] is None for row in rows)
        cluster.gateways[1].kill()
        told = listed(first)
        assert (told["answered"]["asked"], told["answered"]["answered"]) == (2, 1)
        (missing,) = told["answered"]["missing"]
        assert missing["reason"].startswith("no ")
        (silent,) = [row for row in told["value"] if row["silentSeconds"]]
        assert silent["name"] == missing["name"]


@pytest.mark.soak
def test_a_logout_and_a_stop_are_known_everywhere(cluster: ClusterProcesses) -> None:
    with client_of(cluster, 0) as first, client_of(cluster, 1) as second:
        assert first.post("/api/v1/session", json={"name": "root", "password": "rootpw"}).status_code == 200
        second.cookies = httpx2.Cookies(first.cookies)
        assert second.get("/api/v1/topics").status_code == 200
        assert first.delete("/api/v1/session", headers={"x-entrepot-dashboard": "1"}).status_code == 204
        wait_until(lambda: second.get("/api/v1/topics").status_code == 401, "the logout is known at the other gateway")
        second.post("/api/v1/session", json={"name": "root", "password": "rootpw"})
        wait_until(lambda: listed(second)["answered"]["answered"] == 2, "both are known")
        assert cluster.gateways[0].stop() == 0
        wait_until(lambda: listed(second)["answered"] == {"asked": 1, "answered": 1, "missing": []}, "it has left")


@pytest.mark.soak
def test_a_killed_gateway_that_comes_back_at_its_address_is_no_fault_of_the_others(tmp_path: Path) -> None:
    """Its record of before names the same address, where a gateway of another id answers."""
    with ClusterProcesses(tmp_path, ADMIN, name_servers=1, brokers=1, gateways=1) as cluster:
        fixed = cluster.add_gateway(**{"cluster.gateway_port": str(free_port())})
        fixed.start()
        with client_of(cluster, 0) as client:
            client.post("/api/v1/session", json={"name": "root", "password": "rootpw"})
            wait_until(lambda: listed(client)["answered"]["answered"] == 2, "both are known")
            fixed.kill()
            fixed.start()
            wait_until(lambda: listed(client)["answered"]["answered"] == 2, "it is known by its new record")
            (missing,) = listed(client)["answered"]["missing"]
            assert "no gateway of this cluster" in missing["reason"]
            assert client.get("/api/v1/overview").status_code == 200
