"""Files that a replica keeps beside its log: `replica.json`, its state, and `diverged/`, what was cut of its log.

ADR 74: the end of a log tells that its disk was put back. Invariant: both are put in place whole and durable before
anybody is told. `confirmed` is written behind (`kept_confirmed.py`).
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
import structlog

from entrepot.broker.replication.files.kept_confirmed import KeptConfirmed
from entrepot.broker.replication.files.runs import read_parts
from entrepot.broker.store.commit_log import CommitLog, is_segment_name
from entrepot.broker.store.damage import DamagedLogError
from entrepot.broker.store.diverged import DIRECTORY as DIVERGED
from entrepot.broker.store.diverged import DivergedPart, part_of
from entrepot.broker.store.small_files import decode_json, make_directories_durably, put_durably
from entrepot.domain.errors import StoreFailedError
from entrepot.domain.replication.confirmation_rule import RuleKind
from entrepot.domain.replication.mastership import ReplicaState

FILE: Final = "replica.json"
CUT: Final = "cut"
MAX_DIVERGED_BYTES: Final = 1 << 30
"""Most bytes of one cut kept in `diverged/`."""
MAX_DAMAGE_BYTES: Final = 64 << 20
"""Most bytes kept of a damaged segment."""
log = structlog.get_logger(__name__)


def has_others(state: ReplicaState) -> bool:
    """True if other replicas count beside this one, and so have records that it may have lost."""
    appointment = state.appointment
    counted = appointment.known if appointment.rule.kind is RuleKind.QUORUM else appointment.members
    return any(member.replica != state.replica for member in counted)


class ReplicaFiles:
    """The files of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._path, self._cut = data_dir / FILE, data_dir / CUT
        self.diverged = data_dir / DIVERGED
        self.confirmed = KeptConfirmed(data_dir)

    def kept(self) -> ReplicaState | None:
        """Return the stored state, or None. Raises StoreFailedError where it cannot be read."""
        if not self._path.exists():
            return None
        try:
            return decode_json(self._path.read_bytes(), ReplicaState)
        except msgspec.DecodeError as error:
            text = "it has the promises of this replica: put its directory aside, and start it with an empty one"
            raise StoreFailedError(f"{self._path} cannot be read: {error}; {text}") from error

    def load(self, replica: int, group: str) -> ReplicaState:
        """Return the state; a new directory's has promised nothing. `group`: id of the store there, or empty. Raises
        StoreFailedError for another replica's directory."""
        found = self.kept()
        if found is None:
            return ReplicaState(group, replica, secrets.token_hex(16))
        if found.replica != replica:
            raise StoreFailedError(f"{self._path.parent} has the data of replica {found.replica}, not of {replica}")
        if group and found.group and found.group != group:
            raise StoreFailedError(f"{self._path.parent} has a store of group {group}, and was in group {found.group}")
        return found

    def save(self, state: ReplicaState) -> None:
        """Keep the state.  Raises OSError."""
        put_durably(self._path, msgspec.json.format(msgspec.json.encode(state), indent=2))

    def intend_cut(self, to: int) -> None:
        """Note the end to which the log is to be cut: opening the store does it (`broker.store.recovery`)."""
        self.confirmed.lower(to)
        put_durably(self._cut, b"%d" % to)

    def disown(self, state: ReplicaState, problem: str) -> ReplicaState:
        """Become another replica from now on, without acknowledgements: this one has lost bytes that it had synced. It
        is a stranger to the others, copies the missing part, and counts again once it has all."""
        log.critical(
            "this replica has lost what it had acknowledged: it copies that from the others, and counts again then",
            problem=problem,
        )
        self.confirmed.lower(0)  # what is confirmed of the rest, its next master tells
        state = replace(state, incarnation=secrets.token_hex(16), refused="")
        self.save(state)
        return state

    def cut_damage(self, end: int) -> None:
        """Cut the log before its first corrupted byte. The rest goes to `diverged/` as it is, as far as the disk can
        read it and has room."""
        left = MAX_DIVERGED_BYTES
        for path in sorted((self._path.parent / "commitlog").iterdir()):
            start = int(path.name) if is_segment_name(path.name) else end
            if start + path.stat().st_size <= end or not is_segment_name(path.name):
                continue
            begin = max(end, start)
            try:
                with path.open("rb") as file:
                    file.seek(begin - start)
                    rest = file.read(min(left, MAX_DAMAGE_BYTES)).rstrip(b"\0")
                if rest:
                    self.keep_diverged(begin, [rest], begin)  # others have it: nothing is given up
                    left -= len(rest)
            except OSError as error:
                log.error("a damaged part of the log is not kept", start=begin, problem=str(error))
            if left <= 0:
                break
        self.intend_cut(end)

    def check_end(self, end: int) -> None:
        """Raise DamagedLogError if the log ends before what is confirmed of it: it was cut from outside."""
        if self.confirmed.kept > end:
            text = f"the log was cut from outside: it ends at {end}, and {self.confirmed.kept} was confirmed"
            raise DamagedLogError(f"{text} ({self.confirmed.path})", end)

    def diverged_parts(self) -> list[DivergedPart]:
        """Return each cut that was kept."""
        found = [part_of(path.name) for path in self.diverged.iterdir()] if self.diverged.is_dir() else []
        return sorted(part for part in found if part is not None)

    def keep_cut(self, commit_log: CommitLog, start: int, end: int) -> None:
        """Keep the part of a log that is about to be cut, up to the limit."""
        parts = read_parts(commit_log, start, min(end, start + MAX_DIVERGED_BYTES))
        path = self.keep_diverged(start, parts, self.confirmed.known)
        known = max(0, min(self.confirmed.known, end) - start)
        log.error("a part of the log is cut", kept_in=str(path), bytes=end - start, confirmed_bytes=known)

    def keep_diverged(self, start: int, parts: list[bytes], confirmed: int) -> Path:
        """Keep bytes of the log that are about to be cut, by their offset; `confirmed`: end of what is given up."""
        make_directories_durably(self.diverged)
        end = start + sum(map(len, parts))
        path = self.diverged / DivergedPart(start, end, max(start, min(confirmed, end))).file_name
        put_durably(path, b"".join(parts))
        return path
