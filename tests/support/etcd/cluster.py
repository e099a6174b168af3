"""The real etcd: one member or three, each a process on free loopback ports."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import grpc
import pytest

from entrepot.protocols.etcd import rpc_pb2 as pb
from entrepot.store_client.etcd.calls import RANGE, STATUS, TRANSACTION, Call
from tests.support.processes.ports import free_port
from tests.support.processes.started import Started
from tests.support.waiting import PATIENCE_SECONDS, wait_until

PEERS: Final = Path(__file__).resolve().parents[2] / "peers"
VERSION: Final = re.findall(r"go.etcd.io/etcd/server/v3 (v[0-9.]+)", (PEERS / "etcd/go.mod").read_text())[0]
BUILT: Final = PEERS / "bin"
"""Where `make peers` puts the program, with a stamp when it is whole."""
LIMITS: Final = {"max-txn-ops": "10000", "max-request-bytes": "9437184"}
ASK_SECONDS: Final = 2.0
START_SECONDS: Final = 2 * PATIENCE_SECONDS

COMPACT: Final = Call("etcdserverpb.KV/Compact", pb.CompactionRequest, pb.CompactionResponse)
ALARM: Final = Call("etcdserverpb.Maintenance/Alarm", pb.AlarmRequest, pb.AlarmResponse)
DEFRAGMENT: Final = Call("etcdserverpb.Maintenance/Defragment", pb.DefragmentRequest, pb.DefragmentResponse)
ADD_USER: Final = Call("etcdserverpb.Auth/UserAdd", pb.AuthUserAddRequest, pb.AuthUserAddResponse)
ADD_ROLE: Final = Call("etcdserverpb.Auth/RoleAdd", pb.AuthRoleAddRequest, pb.AuthRoleAddResponse)
GRANT_ROLE: Final = Call("etcdserverpb.Auth/UserGrantRole", pb.AuthUserGrantRoleRequest, pb.AuthUserGrantRoleResponse)
GRANT: Final = Call(
    "etcdserverpb.Auth/RoleGrantPermission", pb.AuthRoleGrantPermissionRequest, pb.AuthRoleGrantPermissionResponse
)
ENABLE_AUTH: Final = Call("etcdserverpb.Auth/AuthEnable", pb.AuthEnableRequest, pb.AuthEnableResponse)


def require_etcd() -> None:
    """Skip the test where etcd cannot run."""
    if shutil.which("setpriv") is None:
        pytest.skip("etcd needs setpriv, which ends it with the tests")
    if not (BUILT / f".etcd-{VERSION}").exists():
        pytest.skip(f"etcd {VERSION} is not built (make peers, with Go)")


@dataclass(frozen=True)
class Tls:
    """Files of a member's certificate and of the authority.  A client shows a certificate, too."""

    authority: Path
    certificate: Path
    key: Path

    def flags(self) -> dict[str, str]:
        return {
            "cert-file": str(self.certificate),
            "key-file": str(self.key),
            "trusted-ca-file": str(self.authority),
            "client-cert-auth": "true",
        }

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(
            self.authority.read_bytes(), self.key.read_bytes(), self.certificate.read_bytes()
        )


class EtcdMember:
    """One member.  It does not outlive the tests, however they end."""

    def __init__(self, directory: Path, name: str, tls: Tls | None) -> None:
        self.name, self.tls = name, tls
        self.port, self.peer_port = free_port(), free_port()
        self._directory, self._log = directory, directory / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.command: list[str] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start, without waiting."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", str(BUILT / "etcd"), *self.command],
                cwd=self._directory,
                env={"PATH": os.environ["PATH"], "HOME": str(self._directory)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        assert self._process is not None
        return self._process.wait(PATIENCE_SECONDS)

    def check(self) -> None:
        """Fail if it has ended."""
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} ended with {self._process.returncode}:\n{self.log_text()}"

    def log_text(self) -> str:
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""

    def says(self, words: str) -> bool:
        """True if its log has these words."""
        return words in self._log.read_text(errors="replace")

    def ask(self, call: Call[Any, Any], question: Any, token: str = "", seconds: float = PATIENCE_SECONDS) -> Any:
        """The member's answer, as an operator asks.  Raises gRPC's own errors."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        if self.tls is None:
            channel = grpc.insecure_channel(self.address, options)
        else:
            channel = grpc.secure_channel(self.address, self.tls.credentials(), options)
        with channel:
            method = channel.unary_unary(f"/{call.name}", call.question.SerializeToString, call.answer.FromString)
            return method(question, timeout=seconds, metadata=(("token", token),) if token else ())


class EtcdCluster(Started):
    """Members of one etcd on an empty folder.  They are killed at the end.  `flags`: further ones, or other values."""

    def __init__(
        self, directory: Path, members: int = 1, tls: Tls | None = None, flags: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        require_etcd()
        self.members = [EtcdMember(directory, f"m{number}", tls) for number in range(members)]
        given = {**LIMITS, **(tls.flags() if tls else {}), **flags}
        scheme = "http" if tls is None else "https"
        for member in self.members:
            own = {
                "name": member.name,
                "data-dir": str(directory / member.name),
                "listen-client-urls": f"{scheme}://{member.address}",
                "advertise-client-urls": f"{scheme}://{member.address}",
                "listen-peer-urls": member.peer_url,
                "initial-advertise-peer-urls": member.peer_url,
                "initial-cluster": ",".join(f"{each.name}={each.peer_url}" for each in self.members),
                "log-level": "warn",
            }
            member.command = [f"--{name}={value}" for name, value in (own | given).items()]

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(member.address for member in self.members)

    def start(self) -> None:
        """Start all, and wait until each answers with what all have agreed on."""
        for member in self.members:
            member.start()
        for member in self.members:
            self.wait_ready(member)

    def wait_up(self, member: EtcdMember) -> None:
        """Wait until a member answers at all, as one does that asks for passwords."""
        wait_until(lambda: self._is_up(member), self.log_text, START_SECONDS)

    def wait_ready(self, member: EtcdMember) -> None:
        wait_until(lambda: self._is_ready(member), self.log_text, START_SECONDS)

    def kill(self) -> None:
        """SIGKILL to every member, and wait for their ends."""
        for member in self.members:
            member.kill()

    def log_text(self) -> str:
        return "\n".join(f"{member.name}:\n{member.log_text()}" for member in self.members)

    def leader(self) -> EtcdMember:
        """The leader, as the members say that answer."""
        return wait_until(self._leader, "they agree on a leader")

    def _leader(self) -> EtcdMember | None:
        for member in self.members:
            try:
                status = member.ask(STATUS, pb.StatusRequest(), seconds=ASK_SECONDS)
            except grpc.RpcError:
                continue
            if status.leader == status.header.member_id:
                return member
        return None

    def _is_ready(self, member: EtcdMember) -> bool:
        member.check()
        try:
            member.ask(RANGE, pb.RangeRequest(key=b"x"), seconds=ASK_SECONDS)
        except grpc.RpcError:
            return False
        return True

    def _is_up(self, member: EtcdMember) -> bool:
        member.check()
        try:
            member.ask(RANGE, pb.RangeRequest(key=b"x"), seconds=ASK_SECONDS)
        except grpc.RpcError as refused:
            return "user name is empty" in str(refused)
        return True

    def put(self, key: str, value: bytes = b"") -> int:
        """Write a key at the first member; its revision."""
        put = pb.RequestOp(request_put=pb.PutRequest(key=key.encode(), value=value))
        return int(self.members[0].ask(TRANSACTION, pb.TxnRequest(success=[put])).header.revision)

    def compact(self, revision: int) -> None:
        """Forget the states before a revision."""
        self.members[0].ask(COMPACT, pb.CompactionRequest(revision=revision, physical=True))

    def enable_users(self, root: str, **passwords: str) -> None:
        """Ask for passwords from now on: root's is `secret`; others may read and write what is behind `root`."""
        ask = self.members[0].ask
        ask(ADD_ROLE, pb.AuthRoleAddRequest(name="root"))
        ask(ADD_ROLE, pb.AuthRoleAddRequest(name="gateway"))
        end = root.encode()[:-1] + bytes([root.encode()[-1] + 1])
        permission = pb.AuthRoleGrantPermissionRequest(name="gateway")
        permission.perm.permType = permission.perm.READWRITE
        permission.perm.key, permission.perm.range_end = root.encode(), end
        ask(GRANT, permission)
        for name, password in {"root": "secret", **passwords}.items():
            ask(ADD_USER, pb.AuthUserAddRequest(name=name, password=password))
            role = "root" if name == "root" else "gateway"
            ask(GRANT_ROLE, pb.AuthUserGrantRoleRequest(user=name, role=role))
        ask(ENABLE_AUTH, pb.AuthEnableRequest())


@pytest.fixture(scope="session")
def etcd_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """One member for all tests of a worker, which take roots of their own."""
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def etcd_of_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    """Three members, likewise."""
    with EtcdCluster(tmp_path_factory.mktemp("etcd"), 3) as cluster:
        yield cluster


on_etcd: Final = [pytest.mark.interop, pytest.mark.xdist_group("etcd"), pytest.mark.timeout(300)]
"""Marks of a test at a shared cluster: one worker has all of them."""
