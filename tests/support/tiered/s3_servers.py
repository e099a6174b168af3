"""Other people's S3 servers as processes of a test's own: versitygw and SeaweedFS, with an empty folder each."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

import pytest

from tests.support.processes.ports import free_port
from tests.support.tiered.object_server import SECRET
from tests.support.waiting import PATIENCE_SECONDS, wait_until

PROGRAMS: Final = Path(__file__).resolve().parents[2] / "peers" / "bin"
"""Where `make peers` puts what it builds."""
REGION: Final = "us-east-1"
BUCKET: Final = "entrepot-tests"
KEYS: Final = {"AWS_ACCESS_KEY_ID": f"key-{SECRET}", "AWS_SECRET_ACCESS_KEY": f"secret-{SECRET}"}
"""Credentials of clients, as these find them in the environment."""
_turns = itertools.count()


class S3Server:
    """A server on loopback with one bucket. It is killed at the end."""

    name = ""
    program = ""

    def __init__(self, directory: Path) -> None:
        if not (PROGRAMS / self.program).exists():
            pytest.skip(f"{self.name} is not installed (make peers, with Go)")
        self.directory = directory
        self.port = free_port()
        self._log = directory / f"{self.program}.log"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, Any]:
        """Settings of a tier at this server, by the names of `StoreOptions`."""
        return {"endpoint": self.endpoint, "region": REGION, "allow_http": True}

    def new_url(self) -> str:
        """A prefix of the bucket that has nothing yet."""
        return f"s3://{BUCKET}/pre/{next(_turns)}"

    def arguments(self) -> list[str]:
        """Its command line, behind the program; prepares the folder."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Start, and wait until the bucket is made; kill at the end, however the test ends."""
        command = ["setpriv", "--pdeathsig", "KILL", str(PROGRAMS / self.program), *self.arguments()]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.directory), **self.environment()}
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self.directory, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            client = self._client()
            wait_until(lambda: self._has_bucket(process, client), self._log_text, 2 * PATIENCE_SECONDS)
            yield self
        finally:
            process.kill()
            process.wait(PATIENCE_SECONDS)

    def _client(self) -> Any:
        boto3, config = pytest.importorskip("boto3"), pytest.importorskip("botocore.config")
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            config=config.Config(retries={"total_max_attempts": 1}),
            **{name.lower(): value for name, value in KEYS.items()},
        )

    def _has_bucket(self, process: subprocess.Popen[bytes], client: Any) -> bool:
        """Make the bucket and write to it; False while the server does not listen or its parts have not met."""
        errors = pytest.importorskip("botocore.exceptions")
        assert process.poll() is None, f"{self.name} ended:\n{self._log_text()}"
        try:
            with suppress(client.exceptions.BucketAlreadyOwnedByYou):
                client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"")
            client.delete_object(Bucket=BUCKET, Key="ready")
        except errors.BotoCoreError:
            return False
        except errors.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] < 500:
                raise
            return False
        return True

    def _log_text(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]


class Versity(S3Server):
    """versitygw over a folder. What it knows of objects is in files, as not each file system has attributes."""

    name = "versitygw"
    program = "versitygw"

    def arguments(self) -> list[str]:
        data, about = self.directory / "data", self.directory / "about"
        data.mkdir()
        about.mkdir()
        listens = ["--port", f"127.0.0.1:{self.port}", "--region", REGION, "--quiet"]
        return [*listens, "posix", "--sidecar", str(about), str(data)]

    def environment(self) -> dict[str, str]:
        return {
            "ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"],
            "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"],
        }


class SeaweedFs(S3Server):
    """SeaweedFS: a master, a volume server, a filer and the S3 door, in one process."""

    name = "SeaweedFS"
    program = "weed"

    def arguments(self) -> list[str]:
        credentials = [{"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}]
        identity = {"name": "tests", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List"]}
        config = self.directory / "s3.json"
        config.write_text(json.dumps({"identities": [identity]}))
        data = self.directory / "data"
        data.mkdir()
        parts = ("master", "volume", "filer", "s3")
        values = {
            **{f"{part}.{kind}": free_port() for part in parts for kind in ("port", "port.grpc")},
            "dir": data,
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "master.telemetry": "false",  # it would report to its makers
            "master.volumeSizeLimitMB": 64,
            "volume.max": 100,
            "filer.localSocket": "filer.sock",
            "s3.localSocket": "s3.sock",
            "s3.port": self.port,
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.config": config,
        }
        return ["server", "-s3", *(f"-{name}={value}" for name, value in values.items())]
