"""Machines on one machine: a network namespace for each, joined by a router that can be told to lose packets.

Every machine has one link, to the router, and an address in 198.18.0.0/15, which is for tests and routed nowhere; the
namespaces have no way out.  A cut is a rule of the router by which packets from one machine to another vanish without
a word, as they do when a cable is pulled: no reset, no refusal.  Only iproute2 is needed, and root.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.partition.bad_lines import TUN, Badness, opened

_PREFIX = "entrepot-"
_ROUTER = "router"
_CLONE_NEWNET = 0x40000000
_PROBE = "probe"
_BAD_LINE = "badline"
_BAD_TABLE = "100"
_BAD_RULES = (
    ("priority", "10", "iif", _BAD_LINE, "lookup", "main"),  # what has been through it goes on
    ("priority", "20", "lookup", _BAD_TABLE),
)
_numbers = itertools.count()
"""Of this process's networks: several may be there at once."""


class Network:
    """`machines`: their names.  Its namespaces are called after this process, so that those of dead ones are known."""

    def __init__(self, machines: Sequence[str]) -> None:
        self._stem = f"{_PREFIX}{_owner(os.getpid())}-{next(_numbers)}-"
        self._addresses = {name: f"198.18.{number}.2" for number, name in enumerate(machines, 1)}
        self._cuts: set[tuple[str, str]] = set()
        self._slow: set[str] = set()
        self._spoiling: subprocess.Popen[bytes] | None = None

    def address(self, machine: str) -> str:
        return self._addresses[machine]

    def namespace(self, machine: str) -> str:
        return self._stem + machine

    def make(self) -> None:
        """Make the namespaces and join them."""
        sweep()
        _ip("netns", "add", self.namespace(_ROUTER))
        self._write_in(_ROUTER, "/proc/sys/net/ipv4/ip_forward", "1")
        for name, address in self._addresses.items():
            self._add(name, address, address.removesuffix(".2") + ".1")

    def _add(self, name: str, address: str, gate: str) -> None:
        here, router, port = self.namespace(name), self.namespace(_ROUTER), _port(name)
        _ip("netns", "add", here)
        _ip("link", "add", "link0", "netns", here, "type", "veth", "peer", "name", port, "netns", router)
        for namespace, device, own in ((here, "link0", address), (router, port, gate)):
            _ip("-n", namespace, "address", "add", f"{own}/24", "dev", device)
            _ip("-n", namespace, "link", "set", device, "up")
        _ip("-n", here, "link", "set", "lo", "up")
        _ip("-n", here, "route", "add", "default", "via", gate)

    def _write_in(self, machine: str, path: str, text: str) -> None:
        with self.inside(machine):
            Path(path).write_text(text)

    def remove(self) -> None:
        """Take all of it away again."""
        if self._spoiling is not None:
            self._spoiling.kill()
            self._spoiling.communicate(timeout=10)
        for name in _namespaces():
            if name.startswith(self._stem):
                _remove(name)

    # -- cuts ----------------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """Lose every packet from one machine to another."""
        self._rule("add", source, target)
        self._cuts.add((source, target))

    def part(self, one: str, other: str) -> None:
        """Lose them in both directions."""
        self.cut(one, other)
        self.cut(other, one)

    def slow(self, machine: str, rate: str = "1mbit") -> None:
        """Let no more than so much go to a machine."""
        limit = ("tbf", "rate", rate, "burst", "16kb", "latency", "500ms")
        _run("tc", "-n", self.namespace(_ROUTER), "qdisc", "replace", "dev", _port(machine), "root", *limit)
        self._slow.add(machine)

    def spoil(self, badness: Badness, seed: int) -> None:
        """Let every packet between machines come late, out of order, or not at all."""
        self._end_spoiling()
        asked = [_BAD_LINE, str(badness.delay_ms), str(badness.jitter_ms), str(badness.loss), str(seed)]
        command = self.command(_ROUTER, sys.executable, "-m", "tests.partition.bad_lines", *asked)
        self._spoiling = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
        assert self._spoiling.stdout is not None and self._spoiling.stdout.readline(), "the bad line is there"
        self._write_in(_ROUTER, f"/proc/sys/net/ipv4/conf/{_BAD_LINE}/rp_filter", "0")
        _ip("-n", self.namespace(_ROUTER), "link", "set", _BAD_LINE, "up")
        _ip("-n", self.namespace(_ROUTER), "route", "add", "default", "dev", _BAD_LINE, "table", _BAD_TABLE)
        for rule in _BAD_RULES:
            _ip("-n", self.namespace(_ROUTER), "rule", "add", *rule)

    def _end_spoiling(self) -> None:
        """The device goes with its process, and its route with the device."""
        if self._spoiling is None:
            return
        for rule in _BAD_RULES:
            _ip("-n", self.namespace(_ROUTER), "rule", "del", *rule)
        self._spoiling.kill()
        self._spoiling.communicate(timeout=10)
        self._spoiling = None

    def heal(self) -> None:
        """Lose none any more, and let all go at once."""
        self._end_spoiling()
        for machine in tuple(self._slow):
            _run("tc", "-n", self.namespace(_ROUTER), "qdisc", "del", "dev", _port(machine), "root")
            self._slow.discard(machine)
        for source, target in tuple(self._cuts):
            self._rule("del", source, target)
            self._cuts.discard((source, target))

    def _rule(self, verb: str, source: str, target: str) -> None:
        ends = ("from", self.address(source), "to", self.address(target))
        _ip("-n", self.namespace(_ROUTER), "rule", verb, *ends, "blackhole")

    # -- being there ---------------------------------------------------------------------------------------------

    def command(self, machine: str, *command: str) -> list[str]:
        """A command on a machine; it dies with this process."""
        return ["ip", "netns", "exec", self.namespace(machine), "setpriv", "--pdeathsig", "KILL", *command]

    def enter(self, machine: str) -> None:
        """Let this thread be on a machine for good: its sockets are there."""
        _enter(Path("/run/netns") / self.namespace(machine))

    @contextmanager
    def inside(self, machine: str) -> Iterator[None]:
        """Let this thread be on a machine for the length of a block."""
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.enter(machine)
            try:
                yield
            finally:
                _set_namespace(here)
        finally:
            os.close(here)


def refusal() -> str | None:
    """Why there can be no such network here; None where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in ("ip", "tc", "setpriv") if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (make peers)"
    network = Network([_PROBE])
    try:
        network.make()
        network.cut(_PROBE, _PROBE)
        network.slow(_PROBE)
    except (OSError, AssertionError) as error:
        return f"no network namespaces here: {error}"
    finally:
        network.remove()
    return None


def refusal_of_bad_lines() -> str | None:
    """Why no line can be bad here; None where it can."""
    try:
        os.close(opened(f"probe{os.getpid()}"[:15]))
    except OSError as error:
        return f"no {TUN} here: {error}"
    return None


def sweep() -> None:
    """Remove what a killed run has left."""
    for name in _namespaces():
        if name.startswith(_PREFIX):
            owner = "-".join(name.split("-")[1:3])
            pid = owner.partition("-")[0]
            if not pid.isdecimal() or _owner(int(pid)) != owner:
                _remove(name)


def _owner(pid: int) -> str:
    """A process, told from others that had or will have its number."""
    try:
        return f"{pid}-{Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    except OSError:
        return ""


def _namespaces() -> list[str]:
    """The name of every namespace that has one."""
    return [line.split()[0] for line in _ip("netns", "list").splitlines() if line.strip()]


def _remove(namespace: str) -> None:
    """Its processes have ended, or end by themselves with the process that started them."""
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, timeout=10, check=False)


def _port(machine: str) -> str:
    """The router's end of a machine's link."""
    return f"to-{machine}"[:15]


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"
    return done.stdout


def _enter(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _set_namespace(file)
    finally:
        os.close(file)


def _set_namespace(file: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(file, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
