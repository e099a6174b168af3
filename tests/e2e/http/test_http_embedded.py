"""A gateway inside another program, and routers of packages that are installed beside it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from entrepot.gateway.embedding import EmbeddedGateway
from entrepot.gateway.settings.loading import SettingsError
from tests.support.cases import cases
from tests.support.cheap_hashes import CHEAP_FLAGS

CHEAP = CHEAP_FLAGS
HERE: dict[str, Any] = {"base_url": "http://localhost", "client": ("127.0.0.1", 40_112)}
ROOT = {"security.initial_admin": "root", "security.initial_admin_password": "root", **CHEAP}
ALONE = {"mqtt.enabled": "false", "amqp.enabled": "false", "grpc.enabled": "false"}
EVENT = {"specversion": "1.0", "type": "t", "source": "/s", "id": "1"}
KIND = {"content-type": "application/cloudevents+json"}
PACKAGE = """
from fastapi import APIRouter
from entrepot.domain.access.model import Action, ResourceType
from entrepot.gateway.embedding import Calling

router = APIRouter()


@router.get("/api/v1/shops/{name}")
async def shop(name: str, caller: Calling) -> dict[str, str]:
    caller.check(Action.SUB, ResourceType.TOPIC, name)
    return {"name": name, "for": caller.principal.name}
"""


def program(directory: Path, **settings: str) -> tuple[FastAPI, EmbeddedGateway]:
    gateway = EmbeddedGateway({"store.data_dir": str(directory), **ALONE, **settings})
    app = FastAPI(lifespan=gateway.lifespan)
    app.mount("/mq", gateway)

    @app.get("/own")
    async def own() -> str:
        return "own"

    return app, gateway


def test_operations_stand_beside_routes_of_the_program(tmp_path: Path) -> None:
    app, gateway = program(tmp_path)
    with TestClient(app, **HERE) as client:
        assert client.get("/own").json() == "own"
        assert client.get("/mq/readyz").json() == {"status": "ok"}
        assert client.post("/mq/topics/t:publish", json=EVENT, headers=KIND).json() == {}
        pull = client.post("/mq/topics/t/eventsubscriptions/g:receive?maxWaitTime=5").json()
        assert [each["event"]["id"] for each in pull["value"]] == ["1"]
        assert client.get("/mq/api/v1/topics/t%2Fx").status_code == 400, "a slash of a name splits no path"
        assert client.get("/mq/dashboard/index.html").status_code == 200
        assert client.get("/mq/nothing").json()["title"] == "Not Found"
        assert client.get("/readyz").status_code == 404
    with pytest.raises(RuntimeError, match="not open"), TestClient(gateway) as client:
        client.get("/readyz")


def test_it_is_there_again_with_its_data(tmp_path: Path) -> None:
    for events in (1, 2):
        app, _ = program(tmp_path)
        with TestClient(app, **HERE) as client:
            client.post("/mq/topics/t:publish", json=EVENT, headers=KIND).raise_for_status()
            pull = f"/mq/topics/t/eventsubscriptions/g{events}:receive?maxEvents=10&maxWaitTime=5"
            assert len(client.post(pull).json()["value"]) == events


def test_a_setting_that_is_none_is_told_before_anything_opens() -> None:
    with pytest.raises(SettingsError, match=r"store\.colour"):
        EmbeddedGateway({"store.colour": "red"})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package with a router."""
    told = tmp_path / "site" / "shops-1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: shops\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[entrepot.routes]\nshops = shops_of_a_test:router\n")
    (tmp_path / "site" / "shops_of_a_test.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield
    sys.modules.pop("shops_of_a_test", None)


@pytest.mark.usefixtures("package")
def test_routers_of_installed_packages_ask_who_calls_and_for_rights(tmp_path: Path) -> None:
    app, _ = program(tmp_path / "data", **ROOT)
    with TestClient(app, **HERE) as client:
        root, path = ("root", "root"), "/mq/api/v1/shops/north"
        assert client.get(path, auth=root).json() == {"name": "north", "for": "root"}
        client.put("/mq/api/v1/users/ann", json={"password": "ann"}, auth=root).raise_for_status()
        refused = client.get(path, auth=("ann", "ann"))
        assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")
        assert client.get(path).status_code == 401
        assert client.post(path, auth=root).headers["allow"] == "GET, HEAD, OPTIONS"
        times = client.get("/mq/metrics", auth=root).text
        assert 'route="/api/v1/shops/{name}"' in times
        assert client.get("/mq/readyz").status_code == 200


@cases("path", ["/mq", "/mq/"])
def test_its_root_is_its_own(tmp_path: Path, path: str) -> None:
    app, _ = program(tmp_path)
    with TestClient(app, **HERE, follow_redirects=False) as client:
        moved = client.get(path, headers={"accept": "text/html"})
        assert moved.status_code in (307, 404)


def test_the_example_s_shop_takes_an_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENTREPOT__STORE__DATA_DIR", str(tmp_path))
    shop: Any = run_path(str(Path(__file__).parents[3] / "examples" / "embedded.py"))
    with TestClient(shop["app"], **HERE) as client:
        assert client.post("/orders/42").json() == {"taken": 42}
        pull = client.post("/mq/topics/orders/eventsubscriptions/billing:receive?maxWaitTime=5").json()
        assert [each["event"]["data"] for each in pull["value"]] == [{"number": 42}]
