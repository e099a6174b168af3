"""Verification: the check of a data directory, without a change to it.

The log is read from end to end, and the state file's rows and every derived file are checked in place. Then the store
is assembled as at a start (`opening.assemble`), over a disk that keeps recovery's changes to itself. The result is
checked against the log once more.

ADR 3: one log, everything else derived. Invariant: nothing is written into the directory.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from entrepot.broker.inspect import file_checks, queue_checks, state_checks
from entrepot.broker.inspect.findings import Finding, Findings
from entrepot.broker.inspect.log_files import UNKNOWN_SEGMENT_SIZE, LogFiles
from entrepot.broker.inspect.log_summary import LogSummary
from entrepot.broker.inspect.read_only import IdleSyncChannel, ReadOnlyDisk, ReadRows, SharedLock
from entrepot.broker.inspect.state_rows import StateReading, read_state, wait_for_writer
from entrepot.broker.opening.opened_store import OpenedStore, assemble
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.broker.store.message_index import HEAD_ROW, MessageIndex
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.state_file import META_KEY, Rows, meta_change
from entrepot.broker.store.store_files import StoreFiles, StoreIdentity
from entrepot.domain.errors import CorruptedError, EntrepotError


class NotAStoreError(Exception):
    """The directory is not a data directory, or not one that can be inspected."""


@dataclass(slots=True)
class Report:
    """The result of `verify`; `facts` are numbers, by part."""

    facts: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    is_healthy: bool = True

    def as_json(self) -> dict[str, Any]:
        return {"healthy": self.is_healthy, "findings": [f.as_json() for f in self.findings], **self.facts}


def lock_store(root: str) -> SharedLock:
    """Lock a data directory that nobody uses now. Raises NotAStoreError, StoreFailedError."""
    if not os.path.isdir(root):
        raise NotAStoreError(f"there is no directory {root}")
    if not any(os.path.exists(f"{root}/{name}") for name in ("store.json", "commitlog")):
        raise NotAStoreError(f"{root} is not a data directory: it has neither store.json nor commitlog")
    lock = SharedLock(root)
    try:
        wait_for_writer(f"{root}/state.db")
    except BaseException:
        lock.release()
        raise
    return lock


def verify(root: str, *, full: bool = False) -> Report:
    """Check everything. Raises NotAStoreError, StoreFailedError (it is in use, or of a format unknown here)."""
    root = os.path.abspath(root)
    lock = lock_store(root)
    try:
        with tempfile.TemporaryDirectory(prefix="entrepot-verify-") as scratch:
            return _Verification(root, scratch, full=full).run()
    finally:
        lock.release()


class _Verification:
    def __init__(self, root: str, scratch: str, *, full: bool) -> None:
        self._root = root
        self._scratch = scratch
        self._full = full
        self._findings = Findings()
        self._facts: dict[str, Any] = {"directory": root}
        self._log = LogFiles(root)
        self._disks: list[ReadOnlyDisk] = []

    def run(self) -> Report:
        try:
            files = OpenFiles(self._disk(), self._root)
            identity, was_unclean = self._check_identity(StoreFiles(files.disk, self._root))
            state = read_state(f"{self._root}/state.db")
            summary = self._check_log(state, was_unclean=was_unclean)
            self._check_state(state, summary, was_unclean=was_unclean)
            index = file_checks.check_index(files, state.rows, state.position or 0, self._findings)
            self._facts["index"] = index
            store = self._assemble(state.trusted) if identity is not None else None
            queue_checks.check_files(files, state.rows, store, self._findings, was_unclean=was_unclean)
            file_checks.check_strays(self._root, self._log, state.rows, store, self._findings, was_unclean=was_unclean)
            if store is not None:
                self._check_store(store, state)
        finally:
            for disk in self._disks:
                disk.close_all()
        return Report(self._facts, self._findings.listed(), self._findings.is_healthy)

    def _disk(self) -> ReadOnlyDisk:
        scratch = tempfile.mkdtemp(dir=self._scratch)
        disk = ReadOnlyDisk(scratch, (f"{self._log.directory}/{name}" for name in self._log.foreign))
        self._disks.append(disk)
        return disk

    def _check_identity(self, files: StoreFiles) -> tuple[StoreIdentity | None, bool]:
        mark = files.abort_mark()
        try:
            identity = files.identity()
        except CorruptedError as error:
            identity = None
            self._findings.damage("identity", error.message)
        else:
            if identity is None:
                self._findings.damage("identity", "store.json is missing: a start would make a new identity")
        self._facts["store"] = {
            "id": None if identity is None else identity.store_id,
            "format": None if identity is None else identity.format,
            "end": "clean" if mark is None else "unclean",
            "flush": None if mark is None else mark[0],
        }
        return identity, mark is not None

    def _check_log(self, state: StateReading, *, was_unclean: bool) -> LogSummary:
        log = self._log
        summary = LogSummary(state.position or 0 if state.trusted is not None else 0)
        for found in log.scan():
            summary.take(found)
        self._tell_log(summary, was_unclean=was_unclean)
        self._check_segments()
        size = log.segment_size
        self._facts["log"] = {
            "segments": len(log.segments),
            "segmentBytes": None if size == UNKNOWN_SEGMENT_SIZE else size,
            "bytes": log.bytes(),
            "start": log.start,
        } | summary.as_json()
        return summary

    def _tell_log(self, summary: LogSummary, *, was_unclean: bool) -> None:
        findings = self._findings
        for gap, proof in summary.damage:
            shown = f"the record at {proof} shows" if proof is not None else "the state file shows"
            findings.damage(
                "log",
                f"the commit log is damaged from {gap.start} to {gap.end} ({gap.reason}): {shown} that data there had "
                "been kept",
            )
        if summary.torn_bytes:
            text = f"the log has a torn tail of {summary.torn_bytes} bytes from {summary.unproven[0].start} on"
            if was_unclean:
                told = "an end in mid-write, or corrupted since: nothing here says whether it had been confirmed"
                findings.note("torn-tail", f"{text}: {told}")
            else:
                findings.damage("torn-tail", f"{text}, though the store ended cleanly: something wrote or cut there")

    def _check_segments(self) -> None:
        log, findings = self._log, self._findings
        for segment, following in pairwise(log.segments):
            if segment.end > following.start:
                name = f"the segment {segment.start:020d} reaches into the next one, {following.start:020d}"
                findings.damage(
                    "segment", f"{name}: the store was opened with another segment size than it was made with"
                )
        for segment in log.segments[:-1]:
            if segment.end < segment.start + log.segment_size:
                findings.damage(
                    "segment",
                    f"the segment {segment.start:020d} is cut: it has {segment.end - segment.start} of "
                    f"{log.segment_size} bytes",
                )

    def _check_state(self, state: StateReading, summary: LogSummary, *, was_unclean: bool) -> None:
        findings = self._findings
        for problem in state.problems:
            findings.derived("state-file", f"{problem}; all of it is derived from the log again")
        if state.corruption and not state.problems:
            findings.derived("state-file", f"the state file fails SQLite's own check: {state.corruption}")
        position = state.position
        if not state.exists and not was_unclean and summary.end:
            findings.derived("state-file", "the state file is missing; all of it is derived from the log again")
        rest = self._log.segment_size - summary.end % self._log.segment_size
        if position is not None and position > summary.end + (rest if rest < 40 else 0):
            findings.damage("position", f"the state file knows the log up to {position}; it ends at {summary.end}")
        elif position is not None and position < summary.end and not was_unclean:
            findings.derived("position", f"the store ended cleanly at {position}; the log ends at {summary.end}")
        self._facts["state"] = {"rows": len(state.rows), "kinds": state.counts(), "position": position}
        self._facts["state"]["isWhole"] = state.exists and not state.problems

    def _assemble(self, rows: Rows | None) -> OpenedStore | None:
        """Return the store as a start would open it: the state's rows, and the log after their position."""
        layout = replace(CommitLogLayout(), segment_size_bytes=self._log.segment_size)
        settings = BrokerSettings(Path(self._root), layout=layout)
        state_file = ReadRows(f"{self._root}/state.db", None if rows is None else dict(rows))
        try:
            return assemble(settings, self._disk(), IdleSyncChannel(), IdleSyncChannel(), state_file)
        except EntrepotError as error:
            self._findings.damage("recovery", f"the store does not open: {error.message}")
        except Exception as error:  # noqa: BLE001 - rows that pass their checksums and are nonsense: that is the finding
            self._findings.damage("recovery", f"the store does not open: {type(error).__name__}: {error}")
        return None

    def _no_rows(self) -> Rows:
        """Return the state of a store that has applied nothing, without a message index: that takes memory."""
        index = MessageIndex(OpenFiles(self._disk(), self._root))
        index.indexed_until = 2**63 - 1
        return {b"i" + HEAD_ROW.encode(): index.rows()[HEAD_ROW], META_KEY: meta_change(0, 0, 0)[1] or b""}

    def _check_store(self, store: OpenedStore, state: StateReading) -> None:
        findings, engine = self._findings, store.engine
        if engine.report.missing_first_bytes:
            findings.damage(
                "beginning",
                f"the log begins at {self._log.start}: {engine.report.damage}, which retention had not removed",
            )
        queue_checks.check_topics(store, findings)
        walk = queue_checks.EntryWalk(store, findings)
        checked = walk.run(self._log) if self._full else queue_checks.check_samples(store, findings)
        queues = queue_checks.describe(store)
        windows = state_checks.check_windows(store, findings)
        state_checks.check_retries(store, findings)
        self._facts |= {
            "recovery": {"end": engine.end, "scannedBytes": engine.report.scanned_bytes},
            "topics": len(store.registry.topics),
            "groups": len(store.registry.groups),
            "keyValues": len(store.key_values),
            "queues": queues,
            "entriesChecked": checked,
            "windows": windows,
            "timers": state_checks.check_timers(store, findings),
            "halfMessages": state_checks.check_halves(store, findings),
            "postings": file_checks.check_postings(store, self._root, findings),
        }
        if self._full and state.trusted is not None and self._log.start == 0:
            derived = self._assemble(self._no_rows())
            if derived is not None:
                state_checks.compare(store, derived, findings)
