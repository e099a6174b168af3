"""A whole cluster on this machine: name servers, brokers and gateways, each a process of its own.

Run it with `make cluster`. Every part takes a free port unless it is given one, and starts once its dependencies are
ready: name servers, which are also the controllers of replicas, then brokers, then gateways. A map of them is printed.
A part that dies is started again at its addresses; one that dies again and again ends all. Ctrl-C or SIGTERM stops them
in the opposite order; a second one kills them. Data of brokers and controllers stay in the data directory for the next
start.

Exit codes: 0 stopped as asked and every part ended cleanly, 1 a part could not be kept alive or did not end cleanly, 2
wrong usage.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deploy.cluster_arguments import arguments
from deploy.member import STOP_SECONDS, Member, MemberEndedError
from entrepot.domain.printable import printable
from entrepot.gateway.cli.cluster_secret import write_secret

READY_SECONDS: Final = 60.0
AGAIN_SECONDS: Final = 1.0
"""Pause before a part that has died is started again."""
MAX_DEATHS: Final = 5
"""Deaths of a part within `DEATHS_SECONDS` with which it is given up."""
DEATHS_SECONDS: Final = 60.0
ROLES: Final = ("nameserver", "broker", "gateway")


class LocalCluster:
    """All parts, and the operations on them together."""

    def __init__(self, wanted: argparse.Namespace, console: Console) -> None:
        self._wanted, self._console = wanted, console
        self._directory: Path = wanted.data_dir
        self._secret = self._directory / "cluster-secret"
        self._members: list[Member] = []
        self._stop = asyncio.Event()
        self._signals = 0

    # -- life ----------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Run from start to end; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled)
        code = 0
        try:
            await self._start_all()
            if not self._stop.is_set():
                self._print_map()
                await self._watch()
        except MemberEndedError as ended:
            self._complain(ended.member, str(ended))
            code = 1
        finally:
            is_clean = await self._stop_all()
        return code if is_clean else 1

    def _signalled(self) -> None:
        self._signals += 1
        if self._signals == 2:
            self._say("killing all")
        if self._signals > 1:
            for member in self._members:
                member.signal(signal.SIGKILL)
        self._stop.set()

    async def _start_all(self) -> None:
        wanted = self._wanted
        for directory in ("log", "run"):
            (self._directory / directory).mkdir(parents=True, exist_ok=True)
        if not self._secret.exists():
            write_secret(self._secret)
        name_servers, controllers = self._name_servers()
        await self._start(name_servers)
        known = ["--nameserver", ",".join(member.addresses["nameserver"] for member in name_servers if member.look())]
        if self._stop.is_set():
            return
        known += ["--set", f"cluster.controllers={json.dumps(controllers)}"]
        await self._start([broker for index in range(wanted.brokers) for broker in self._replicas(index, known)])
        if self._stop.is_set():
            return
        ports = [
            ("--mqtt-port", wanted.mqtt_port),
            ("--amqp-port", wanted.amqp_port),
            ("--grpc-port", wanted.grpc_port),
            ("--http-port", wanted.http_port),
        ]
        setup_token = ("--set", f"security.setup_token_file={self._directory / 'setup-token'}")
        await self._start(
            [
                self._member(
                    "gateway",
                    index,
                    [*known, *setup_token, *(part for flag, first in ports for part in (flag, _port(first, index)))],
                )
                for index in range(wanted.gateways)
            ]
        )

    def _name_servers(self) -> tuple[list[Member], list[str]]:
        """The name servers, and id=host:port of the controllers among them, which must know each other first."""
        wanted = self._wanted
        first, count = wanted.nameserver_port, wanted.nameservers
        ports = [first + at for at in range(count)] if first else _free_ports(wanted.host, count)
        controllers = [f"{n}={wanted.host}:{port}" for n, port in enumerate(ports[: wanted.controllers], 1)]
        members = []
        for index, port in enumerate(ports):
            arguments, data = ["--port", str(port)], None
            if index < wanted.controllers:
                data = self._directory / f"controller-{index + 1}"
                own = ["--controller", str(index + 1), "--controllers", ",".join(controllers), "--data-dir", str(data)]
                arguments += own
            members.append(self._member("nameserver", index, arguments, data))
        return members, controllers

    def _replicas(self, index: int, known: list[str]) -> list[Member]:
        """The processes of one broker: one, or one for each of its replicas."""
        wanted, name = self._wanted, f"broker-{index}"
        if wanted.replicas == 1:
            data = self._directory / name
            arguments = [*known, "--name", name, "--data-dir", str(data), "--port", _port(wanted.broker_port, index)]
            return [self._member("broker", index, arguments, data)]
        first = wanted.broker_port and wanted.broker_port + index * wanted.replicas
        ports = [first + at for at in range(wanted.replicas)] if first else _free_ports(wanted.host, wanted.replicas)
        group = [f"{replica}={wanted.host}:{port}" for replica, port in enumerate(ports, 1)]
        settings = {"broker.replicas": json.dumps(group), "broker.rule": wanted.rule}
        members = []
        for replica, port in enumerate(ports, 1):
            data = self._directory / f"{name}-{replica}"
            arguments = [*known, "--name", name, "--data-dir", str(data), "--port", str(port)]
            for key, value in {**settings, "broker.replica_id": str(replica)}.items():
                arguments += ["--set", f"{key}={value}"]
            members.append(self._member("broker", index, arguments, data, f"-{replica}"))
        return members

    def _member(
        self, role: str, index: int, arguments: list[str], data: Path | None = None, replica: str = ""
    ) -> Member:
        name = f"{role}-{index}{replica}"
        log, ready_file = self._directory / "log" / f"{name}.log", self._directory / "run" / f"{name}.json"
        common = ["--host", self._wanted.host, "--set", f"cluster.secret_file={self._secret}"]
        return Member(role, name, [*common, *arguments], log, ready_file, data)

    async def _start(self, members: Sequence[Member]) -> None:
        """Start some and wait until all of them are ready, or until told to stop."""
        for member in members:
            await member.start()
            self._members.append(member)
        deadline = time.monotonic() + READY_SECONDS
        while not self._stop.is_set():
            self._check_alive()
            waiting = [member for member in members if not member.look()]
            if not waiting:
                return
            if time.monotonic() > deadline:
                raise MemberEndedError(waiting[0], f"is not ready after {READY_SECONDS:g} s")
            await asyncio.sleep(0.02)

    async def _watch(self) -> None:
        """Start parts again that die, until told to stop."""
        while not self._stop.is_set():
            for member in self._members:
                if member.has_ended:
                    await self._start_again(member)
            await self._pause(0.1)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _start_again(self, member: Member) -> None:
        """Start a part that has died. Raises MemberEndedError where it dies again and again."""
        now = time.monotonic()
        member.deaths = [*(at for at in member.deaths if now - at < DEATHS_SECONDS), now]
        if len(member.deaths) > MAX_DEATHS:
            raise MemberEndedError(member, f"{member.how_it_ended()}, for the {len(member.deaths)}th time in a minute")
        self._say(f"{member.name} {member.how_it_ended()}: it is started again")
        await self._pause(AGAIN_SECONDS)
        if not self._stop.is_set():
            member.stay()
            await member.start()

    def _check_alive(self) -> None:
        """Raise MemberEndedError for a part that has ended by itself."""
        for member in self._members:
            if member.has_ended:
                raise MemberEndedError(member, member.how_it_ended())

    async def _stop_all(self) -> bool:
        """Stop gateways first, name servers last; True if all running parts ended cleanly."""
        is_clean = True
        running = [member for member in self._members if not member.has_ended]
        if running:
            self._say("stopping (again to kill)")
        for role in reversed(ROLES):
            stopping = [member for member in running if member.role == role]
            for member in stopping:
                member.signal(signal.SIGTERM)
            in_time = await asyncio.gather(*(member.end() for member in stopping))
            for member, is_in_time in zip(stopping, in_time, strict=True):
                assert member.process is not None
                if not is_in_time:
                    is_clean = False
                    self._complain(member, f"did not stop within {STOP_SECONDS:g} s, and was killed")
                elif member.process.returncode != 0:
                    is_clean = False
                    self._complain(member, f"{member.how_it_ended()} instead of stopping cleanly")
        for member in self._members:
            member.ready_file.unlink(missing_ok=True)
        if running and is_clean:
            self._say("all have stopped")
        return is_clean

    # -- words ---------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self._console.print(Text(printable(text)))

    def _complain(self, member: Member, what: str) -> None:
        if member.is_told:
            return
        member.is_told = True
        self._say(f"{member.name} {what}. The end of {member.log}:")
        for line in member.log_tail():
            self._say(f"  {line}")

    def _print_map(self) -> None:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("role", "name", "address", "pid", "data", "log"):
            table.add_column(column, overflow="fold", justify="right" if column == "pid" else "left")
        for member in self._members:
            assert member.process is not None
            where = "  ".join(
                f"{door}://{address}" if member.role == "gateway" else address
                for door, address in member.addresses.items()
            )
            data = "-" if member.data is None else str(member.data)
            row = (member.role, member.name, where, str(member.process.pid), data, str(member.log))
            table.add_row(*(Text(printable(cell)) for cell in row))
        self._console.print(table)
        first, last = (
            [member for member in self._members if member.role == "gateway"][index].addresses["http"]
            for index in (0, -1)
        )
        broker = next(member for member in self._members if member.role == "broker").addresses["broker"]
        entrepot = Path(sys.executable).with_name("entrepot")
        if entrepot.is_relative_to(Path.cwd()):
            entrepot = entrepot.relative_to(Path.cwd())
        lines = (
            "In another terminal: publish over the first gateway, receive over the last, list, show, ping a broker.",
            f"  curl -X POST http://{first}/topics/factory:publish -H 'ce-specversion: 1.0' -H 'ce-id: 1' "
            "-H 'ce-type: hello' -H 'ce-source: /me' -H 'content-type: application/json' -d '{\"temp\": 21}'",
            f"  curl -X POST 'http://{last}/topics/factory/eventsubscriptions/workers:receive?maxWaitTime=0'",
            f"  {entrepot} topic list --server http://{last}",
            f"  {entrepot} cluster show --server http://{last}",
            f"  {entrepot} ping {broker} --set cluster.secret_file={self._secret}",
            "Ctrl-C stops it.",
        )
        for line in lines:
            self._console.print(Text(line), soft_wrap=True)


def _port(first: int | None, index: int) -> str:
    """The port of one of several: a free one, or counted from the first."""
    return "0" if not first else str(first + index)


def _free_ports(host: str, count: int) -> list[int]:
    """Ports that are free now: replicas know each other's before any of them listens."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server((host, 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    wanted = arguments(given)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 10_000)
    try:
        wanted.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # logs and stores are in it
        with (wanted.data_dir / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                text = f"another cluster runs in {wanted.data_dir}: stop it, or give another --data-dir"
                console.print(Text(printable(text)))
                return 1

            async def run() -> int:
                return await LocalCluster(wanted, console).run()

            return asyncio.run(run())
    except OSError as error:
        console.print(Text(printable(f"cannot start: {error}")))
        return 1


if __name__ == "__main__":
    sys.exit(main())
