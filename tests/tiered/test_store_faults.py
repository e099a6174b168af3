"""Object stores that fail: what is done about it, and what is said."""

from __future__ import annotations

import base64
import hashlib
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.objects import MissingObjectError, ObjectStore, TierError
from entrepot.broker.tiered.opening_store import open_objects
from entrepot.broker.tiered.remote_objects import CONFLICT_TRIES, ObstoreStore
from entrepot.broker.tiered.store_options import StoreOptions
from tests.support.cases import cases
from tests.support.tiered.object_server import BUCKET, SECRET, Answer, ObjectServer, options_for

CALLS: dict[str, Callable[[ObjectStore], object]] = {
    "put": lambda store: store.put_new("a", b"x"),
    "get": lambda store: store.get("a"),
    "parts": lambda store: store.get_ranges("a", [(0, 1), (900_000, 900_001)]),
    "size": lambda store: store.size("a"),
    "list": lambda store: list(store.objects("")),
    "delete": lambda store: store.delete(["a", "b"]),
}


def refused(store: ObjectStore, call: str, said: str) -> None:
    """A call fails with these words and no secret, wherever one looks."""
    with pytest.raises(TierError) as raised:
        CALLS[call](store)
    text = str(raised.value)
    assert said in text, (call, text)
    assert not isinstance(raised.value, MissingObjectError), call
    assert text.startswith(f"{store.url}: "), (call, text)
    shown = "".join(traceback.format_exception(raised.value)) + repr(store) + store.url
    assert SECRET not in shown, call


@pytest.fixture
def silent() -> Iterator[str]:
    """The endpoint of a server that takes connections, and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def nowhere() -> str:
    """An endpoint where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


@cases("call", list(CALLS))
def test_a_store_that_is_away(nowhere: str, keys: None, call: str) -> None:
    store = open_objects(f"s3://{BUCKET}/pre", options_for(nowhere))
    refused(store, call, f"no connection to the store at {nowhere.removeprefix('http://')}: set the right endpoint")


@cases("call", ["put", "get", "list"])
def test_a_silent_store(silent: str, keys: None, call: str) -> None:
    options = StoreOptions(
        silent, "us-east-1", allow_http=True, request_seconds=0.2, retries=1, first_pause_seconds=0.01
    )
    refused(open_objects(f"s3://{BUCKET}", options), call, "said nothing for 0.2 s: look at the network")


ANSWERS = [
    (Answer(401), "does not know the credentials (401): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    (Answer(403, "InvalidAccessKeyId"), "does not know the credentials (403 InvalidAccessKeyId): set AWS_ACCESS"),
    (Answer(403, "SignatureDoesNotMatch"), "does not know the credentials (403 SignatureDoesNotMatch)"),
    (Answer(403, "AccessDenied"), "not allowed to do this (403 AccessDenied): allow them to list the bucket"),
    (Answer(404, "NoSuchBucket"), "there is no such bucket: make it, or set another URL"),
    (Answer(405, "MethodNotAllowed"), "read-only (405 MethodNotAllowed)"),
    (Answer(301, "PermanentRedirect"), "another region: set the region"),
    (Answer(400, "AuthorizationHeaderMalformed"), "another region: set the region"),
    (Answer(500, "InternalError"), "in trouble (500 InternalError)"),
    (Answer(503, "SlowDown"), "no more requests for now (503 SlowDown)"),
    (Answer(507), "is full (507): make room"),
    (Answer(400, "EntityTooLarge"), "refuses the request (400 EntityTooLarge)"),
    (Answer(0), "broke off its answer"),
]


@cases("answer, said", ANSWERS, ids=[f"{answer.status}{answer.code}" for answer, _ in ANSWERS])
@cases("call", ["put", "get", "parts", "list", "delete"])
def test_what_a_store_refuses(
    server: ObjectServer, served_store: ObjectStore, answer: Answer, said: str, call: str
) -> None:
    server.always = answer
    refused(served_store, call, said)


@cases("call", list(CALLS))
def test_a_bucket_that_is_not_there_is_no_missing_object(server: ObjectServer, keys: None, call: str) -> None:
    """A HEAD's answer has no body to tell them apart."""
    store = open_objects("s3://another/pre", options_for(server.endpoint))
    refused(store, call, "there is no such bucket")


@cases("call", list(CALLS))
def test_no_credentials_at_all(
    server: ObjectServer, nowhere: str, keys: None, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", nowhere)
    store = open_objects(f"s3://{BUCKET}/pre", options_for(server.endpoint))
    refused(store, call, "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")


def test_passing_trouble_is_not_seen(server: ObjectServer, served_store: ObjectStore) -> None:
    def trouble() -> None:
        assert not server.faults
        server.faults.extend([Answer(500, "InternalError"), Answer(503, "SlowDown")])

    trouble()
    assert served_store.put_new("a", b"x")
    trouble()
    assert served_store.get("a") == b"x"
    trouble()
    assert [each.path for each in served_store.objects("")] == ["a"]
    trouble()
    served_store.delete(["a"])
    assert not server.found and not server.faults


@cases("status", [500, 503])
def test_a_lost_answer_to_a_create(server: ObjectServer, served_store: ObjectStore, status: int) -> None:
    """The object is there, and "there is one already" is said of one's own."""
    path = f"lost-{status}"
    server.faults.append(Answer(status, after=True))
    assert not served_store.put_new(path, b"mine")
    assert served_store.get(path) == b"mine"


def test_a_create_that_is_cut_off_is_no_success(server: ObjectServer, served_store: ObjectStore) -> None:
    """A client that does not ask again must not say that it knows."""
    server.always = Answer(0, after=True, method="PUT")
    refused(served_store, "put", "broke off its answer")
    server.always = None
    assert served_store.get("a") == b"x"


def test_a_conflict_is_believed_where_there_is_an_object(server: ObjectServer, keys: None) -> None:
    pauses: list[float] = []
    opened = open_objects(f"s3://{BUCKET}/pre", options_for(server.endpoint))
    assert isinstance(opened, ObstoreStore)
    opened._pause = pauses.append
    conflict = Answer(409, "ConditionalRequestConflict", method="PUT")
    server.faults.append(conflict)
    assert opened.put_new("a", b"first")
    server.faults.append(conflict)
    assert not opened.put_new("a", b"second")
    assert opened.get("a") == b"first"
    server.always = conflict
    with pytest.raises(TierError, match="says that b is there, and does not have it"):
        opened.put_new("b", b"x")
    assert pauses == [0.005, 0.005, 0.01, 0.01, 0.01][: 1 + CONFLICT_TRIES]


def test_a_delete_that_is_refused_for_one_object(server: ObjectServer, served_store: ObjectStore) -> None:
    """S3 answers 200, and tells of each object."""
    served_store.put_new("a", b"x")
    server.refuses_deletes = True
    with pytest.raises(TierError) as raised:
        served_store.delete(["a"])
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_what_is_sent_can_be_checked(server: ObjectServer, keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SHA-256 goes along, and the environment does not switch off what keeps writers apart."""
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    store = open_objects(f"s3://{BUCKET}", options_for(server.endpoint))
    store.put_new("a", b"body")
    headers = server.requests[-1][2]
    assert headers["x-amz-checksum-sha256"] == base64.b64encode(hashlib.sha256(b"body").digest()).decode()
    assert headers["if-none-match"] == "*"
    open_objects(f"s3://{BUCKET}", StoreOptions(server.endpoint, allow_http=True, checksum=False)).put_new("b", b"")
    assert "x-amz-checksum-sha256" not in server.requests[-1][2]


def test_near_parts_are_one_request(server: ObjectServer, served_store: ObjectStore) -> None:
    served_store.put_new("a", bytes(3 << 20))
    server.requests.clear()
    served_store.get_ranges("a", [(0, 10), (1000, 2000), (2 << 20, (2 << 20) + 5)])
    asked = sorted(headers["range"] for _, _, headers in server.requests)
    assert asked == ["bytes=0-1999", "bytes=2097152-2097156"]


def test_a_bucket_in_the_hosts_name(server: ObjectServer, keys: None) -> None:
    endpoint = "http://store.invalid:9000"
    store = open_objects(f"s3://{BUCKET}", StoreOptions(endpoint, allow_http=True, virtual_hosted=True))
    assert isinstance(store, ObstoreStore)
    config: dict[str, object] = dict(store._client.config)  # type: ignore[union-attr]
    assert config["endpoint"] == f"http://{BUCKET}.store.invalid:9000"
    assert config["virtual_hosted_style_request"] in (True, "true")


def test_what_others_put_beside(server: ObjectServer, served_store: ObjectStore) -> None:
    """Consoles show a directory by an empty object "d/": it is none of ours, and stands in another place."""
    for path in ("d-b", "d/x", "z"):
        served_store.put_new(path, b"x")
    server.found["pre/d/"] = b""
    assert [each.path for each in served_store.objects("")] == ["d-b", "d/x", "z"]
    server.found["pre/d//x"] = b"x"
    refused(served_store, "list", "an object of others has a path that readers refuse, 'pre/d//x': remove it")
    del server.found["pre/d//x"]
    server.found["pre/d/../x"] = b"x"
    refused(served_store, "list", "an object of others has a path that readers refuse, 'pre/d/../x': remove it")


URLS = [
    ("", "no:// is not an object store's URL"),
    ("/data/tier", "no:// is not an object store's URL: file://, s3://, gs://, az://, memory:// are"),
    ("ftp://host/x", "ftp:// is not an object store's URL"),
    ("s3://", "it names no bucket: s3://bucket/prefix is wanted"),
    ("s3:///prefix", "it names no bucket"),
    ("gs://", "it names no bucket: gs://bucket/prefix"),
    ("s3://bucket:9000/x", "a bucket has no port: set the endpoint"),
    (f"s3://key:{SECRET}@bucket/x", "has credentials in it: they belong in the environment"),
    (f"az://container/x?sig={SECRET}", "has ? or # in it"),
    ("s3://bucket/a/../b", "not an object's path"),
    ("s3://buck et", "blanks"),
    ("s3://[bucket", "brackets"),
    ("file://host/folder", "a folder has no host"),
    ("file:///", "name a folder"),
    ("file:///a/../b", "its path goes up"),
]


@cases("url, said", URLS)
def test_urls_that_are_none(url: str, said: str) -> None:
    with pytest.raises(TierError) as raised:
        open_objects(url)
    assert said in str(raised.value)
    assert SECRET not in "".join(traceback.format_exception(raised.value))


OPTIONS = [
    ({"endpoint": f"http://me:{SECRET}@host"}, "credentials belong in the environment"),
    ({"endpoint": "http://host"}, "without TLS: set allow_http"),
    ({"endpoint": "host:9000"}, "a URL with http or https is wanted"),
    ({"request_seconds": 0}, "request_seconds: more than 0"),
    ({"retries": -1}, "retries: 0 to 100"),
    ({"longest_pause_seconds": 0.01}, "longest_pause_seconds: from first_pause_seconds"),
]


@cases("given, said", OPTIONS)
def test_settings_that_make_no_sense(given: dict[str, object], said: str) -> None:
    with pytest.raises(TierError) as raised:
        StoreOptions(**given)  # type: ignore[arg-type]
    assert said in str(raised.value) and SECRET not in str(raised.value)


def test_an_endpoint_of_the_environment_without_tls(
    server: ObjectServer, keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    refused(open_objects(f"s3://{BUCKET}"), "get", "is without TLS: set allow_http")


def test_settings_of_the_environment_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "someone")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", f"not base64: {SECRET}")
    with pytest.raises(TierError, match=r"^az://container: the settings of the store are not understood") as raised:
        open_objects("az://container")
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_folder_needs_no_further_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "entrepot.broker.tiered.remote_objects")
    store = open_objects(f"{tmp_path.as_uri()}/a%20b")
    assert isinstance(store, FolderStore) and store.put_new("x", b"y")
    assert (tmp_path / "a b" / "x").read_bytes() == b"y" and store.url == f"{tmp_path.as_uri()}/a%20b"
    with pytest.raises(TierError, match=r"^s3:// needs more packages: pip install 'entrepot\[tiered\]'$"):
        open_objects("s3://bucket")
