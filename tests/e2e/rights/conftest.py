"""One server for the whole grid."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.rights import rows_amqp, rows_rocketmq
from tests.e2e.rights.grid import Doors
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.http.client import http_client
from tests.support.processes.server import ServerProcess

SETTINGS = {
    **CHEAP_FLAGS,
    "security.initial_admin": "root",
    "security.initial_admin_password": "root",
    "security.max_cached_logins": "1000",
    "amqp.check_vhost_access": "false",  # each verb has to refuse by itself
    "log.level": "error",
}


def pytest_itemcollected(item: pytest.Item) -> None:
    """All in one worker: else each worker starts a server."""
    item.add_marker(pytest.mark.xdist_group("rights"))


@pytest.fixture(scope="session")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    directory = tmp_path_factory.mktemp("rights")
    cold = {"tier.url": (directory / "cold").as_uri(), "tier.max_age_seconds": "0.1"}
    with ServerProcess(directory, {**SETTINGS, **cold}) as server:
        url = f"http://{server.address('http')}"
        with http_client(url, auth=("root", "root")) as root:
            made = Doors(server, root)
            made.cold = cold["tier.url"]
            assert root.put("/api/v1/namespaces/plant", json={}).status_code == 201
            for path in ("topics/grid", "groups/workers", "topics/grid%252Ex"):
                for below in ("", "/namespaces/plant"):
                    assert root.put(f"/api/v1{below}/{path}", json={}).status_code == 201
            rows_amqp.prepare(made)
            rows_rocketmq.prepare(made)
            yield made
        assert "Traceback" not in server.log_text(), server.log_text()
