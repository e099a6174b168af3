"""Object stores of all kinds, for the tests of the tier."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.objects import ObjectStore
from entrepot.broker.tiered.opening_store import open_objects
from entrepot.broker.tiered.store_options import StoreOptions
from tests.support.clock import ManualClock
from tests.support.tiered.memory_objects import MemoryObjects
from tests.support.tiered.object_server import BUCKET, ObjectServer, object_server, options_for
from tests.support.tiered.s3_servers import KEYS, S3Server, SeaweedFs, Versity
from tests.tiers.marks import interop_only

REAL = os.environ.get("ENTREPOT_TEST_S3_URL")
"""A bucket's URL; credentials, region and endpoint as obstore reads them from the environment."""
_turns = itertools.count()


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    """The endpoint of moto's S3 server, on loopback.

    moto looks for an object and then writes it, in as many threads as ask: of writers at once, two may win.  One at a
    time, it is honest.
    """
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    served, turn = server._server.app, threading.Lock()

    def one_at_a_time(environ: Any, start_response: Any) -> list[bytes]:
        with turn:
            return list(served(environ, start_response))

    server._server.app = one_at_a_time
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials in the environment, both with the secret that no message may have."""
    for name in [each for each in os.environ if each.startswith("AWS_") and each != "AWS_CA_BUNDLE"]:
        monkeypatch.delenv(name)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def moto_store(moto_endpoint: str, keys: None) -> ObjectStore:
    """A new bucket's prefix in moto."""
    boto3 = pytest.importorskip("boto3")
    name = f"bucket-{next(_turns)}"
    boto3.client("s3", endpoint_url=moto_endpoint, region_name="us-east-1").create_bucket(Bucket=name)
    options = StoreOptions(endpoint=moto_endpoint, region="us-east-1", allow_http=True)
    return open_objects(f"s3://{name}/pre/fix", options)


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with Versity(tmp_path_factory.mktemp("versitygw")).running() as server:
        yield server


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with SeaweedFs(tmp_path_factory.mktemp("seaweedfs")).running() as server:
        yield server


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with object_server() as told:
        yield told


@pytest.fixture
def served_store(server: ObjectServer, keys: None) -> ObjectStore:
    return open_objects(f"s3://{BUCKET}/pre", options_for(server.endpoint))


_only_real = pytest.mark.skipif(REAL is None, reason="ENTREPOT_TEST_S3_URL is not set")


@pytest.fixture
def gcs_store(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """The same server by GCS's protocol, whose delete of what is not there is an error."""
    key = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps({**key, "gcs_base_url": server.endpoint}))
    return open_objects(f"gs://{BUCKET}/pre", options_for(server.endpoint))


@pytest.fixture(
    params=[
        *("memory", "memory://", "folder", "server", "gcs", "moto"),
        *(interop_only(each) for each in ("versitygw", "seaweedfs")),
        pytest.param("real", marks=_only_real),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """Each kind of store, empty."""
    match request.param:
        case "memory":
            yield MemoryObjects(ManualClock())
        case "memory://":
            yield open_objects("memory://")
        case "folder":
            yield FolderStore(tmp_path / "tier")
        case "server":
            yield request.getfixturevalue("served_store")
        case "gcs":
            yield request.getfixturevalue("gcs_store")
        case "moto":
            yield request.getfixturevalue("moto_store")
        case "versitygw" | "seaweedfs" as name:
            request.getfixturevalue("keys")
            other: S3Server = request.getfixturevalue(name)
            yield open_objects(other.new_url(), StoreOptions(**other.options))
        case _:
            assert REAL is not None
            opened = open_objects(f"{REAL.rstrip('/')}/{os.urandom(8).hex()}", StoreOptions(allow_http=True))
            yield opened
            opened.delete([each.path for each in opened.objects("")])
