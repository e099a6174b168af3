"""Actions of a Delta table, and the JSON lines of a commit.

A commit of ours begins with its attempt and the number of its lines. The attempt identifies a commit after a lost
answer. The number reveals a file cut at the end of a line. Paths are plain text here, relative to the table; in the log
they are URL-encoded, as the protocol demands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from entrepot.broker.tiered.objects import TierError
from entrepot.domain.errors import Code

ENGINE: Final = "entrepot"
"""`engineInfo` of our commits; any other makes a commit a foreign one."""
MAINTENANCE: Final = "maintenance"
"""App id that every commit with removes raises by one."""
MAX_COMMIT_BYTES: Final = 16 << 20
"""Most bytes of a commit that we write: some 20,000 files."""
READER_VERSION: Final = 1
WRITER_VERSION: Final = 2
READER_FEATURES: Final = {2: "column mapping", 3: "table features"}
WRITER_FEATURES: Final = {
    3: "check constraints",
    4: "generated columns or change data feed",
    5: "column mapping",
    6: "identity columns",
    7: "table features",
}
_SAFE_IN_PATH: Final = "/=-_.~"


def _no_values() -> dict[str, str | None]:
    """Return an empty dict; unlike `dict` itself it makes msgspec write the empty map, which the protocol demands."""
    return {}


class AddFile(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A data file of the table. `modification_time` in epoch milliseconds; `stats` is JSON text with numRecords,
    minValues, maxValues and nullCount."""

    path: str
    size: int
    modification_time: int
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    partition_values: dict[str, str | None] = msgspec.field(default_factory=_no_values)
    deletion_vector: dict[str, Any] | None = None


class RemoveFile(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A file removed from the table at `deletion_timestamp`, in epoch milliseconds. `data_change` is False where the
    same commit adds the same rows in other files."""

    path: str
    data_change: bool
    deletion_timestamp: int | None = None
    size: int | None = None


class Transaction(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Progress of an application: an offset, an epoch. `last_updated` in epoch milliseconds."""

    app_id: str
    version: int
    last_updated: int | None = None


class Format(msgspec.Struct, frozen=True):
    """The format of data files."""

    provider: str
    options: dict[str, str] | None


PARQUET: Final = Format("parquet", {})


class Metadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The table itself. `schema_string` is Spark's JSON schema; `created_time` in epoch milliseconds."""

    id: str
    schema_string: str
    configuration: dict[str, str | None]
    partition_columns: list[str]
    format: Format
    created_time: int | None = None
    name: str | None = None
    description: str | None = None


class Protocol(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The versions of the protocol that a reader and a writer must know."""

    min_reader_version: int
    min_writer_version: int
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class CommitInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Origin and purpose of a commit; all of it may be missing in a foreign one. `timestamp` in epoch milliseconds;
    `lines`: number of lines of the file."""

    timestamp: int | None = None
    operation: str | None = None
    engine_info: str | None = None
    attempt_id: str | None = None
    lines: int | None = None


class _Line(msgspec.Struct, rename="camel", omit_defaults=True):
    commit_info: CommitInfo | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    txn: Transaction | None = None
    remove: RemoveFile | None = None
    add: AddFile | None = None


OwnAction: TypeAlias = AddFile | RemoveFile | Transaction | Metadata
"""Actions of the callers of `DeltaLog.commit`, which adds the rest."""
Action: TypeAlias = OwnAction | Protocol


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of the table."""

    info: CommitInfo
    actions: Sequence[Action]

    @property
    def is_foreign(self) -> bool:
        """True if another program made it."""
        return self.info.engine_info != ENGINE

    def is_of(self, attempt_id: str) -> bool:
        """True if this attempt of ours made it."""
        return not self.is_foreign and self.info.attempt_id == attempt_id


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Line)


def encode_path(path: str) -> str:
    """Return a path as in the log."""
    return quote(path, safe=_SAFE_IN_PATH)


def decode_path(encoded: str) -> str:
    """Return a path of the log, which lies in the table. Raises ValueError for one elsewhere, or outside the table."""
    if _is_elsewhere(encoded):
        raise ValueError(f"{encoded} is not a path in the table")
    path = unquote(encoded, errors="strict") if "%" in encoded else encoded
    check_path(path)
    return path


def check_path(path: str) -> None:
    """Raise ValueError unless the path is relative, and stays within the table."""
    if not path or path[0] == "/" or "\0" in path or (".." in path and ".." in path.split("/")):
        raise ValueError(f"{path!r} is not a path in the table")


def _is_elsewhere(encoded: str) -> bool:
    scheme, colon, _ = encoded.partition(":")
    return bool(colon) and "/" not in scheme


def encode_commit(info: CommitInfo, actions: Iterable[Action]) -> bytes:
    """Return the file of a commit; `info.lines` is set here. Raises ValueError for a path outside the table, and for a
    commit of more than MAX_COMMIT_BYTES."""
    lines = [_line_of(action) for action in actions]
    first = _Line(commit_info=msgspec.structs.replace(info, lines=len(lines) + 1))
    data = b"\n".join(map(_encoder.encode, [first, *lines])) + b"\n"
    if len(data) > MAX_COMMIT_BYTES:
        raise ValueError(f"a commit of {len(data)} bytes; {MAX_COMMIT_BYTES} is the limit")
    return data


def _line_of(action: Action) -> _Line:
    match action:
        case AddFile():
            return _Line(add=_in_log(action))
        case RemoveFile():
            return _Line(remove=_in_log(action))
        case Transaction():
            return _Line(txn=action)
        case Metadata():
            return _Line(meta_data=action)
        case Protocol():
            return _Line(protocol=action)


def _in_log(action: Any) -> Any:
    check_path(action.path)
    encoded = encode_path(action.path)
    return action if encoded == action.path else msgspec.structs.replace(action, path=encoded)


def _out_of_log(action: Any) -> Any:
    path = decode_path(action.path)
    return action if path == action.path else msgspec.structs.replace(action, path=path)


def decode_commit(data: bytes, name: str) -> Commit:
    """Return the commit in a file. `name` is for the TierError of a corrupted or cut one. Actions that plain tables do
    not know, such as change data files, are skipped."""
    info = CommitInfo()
    actions: list[Action] = []
    count = 0
    try:
        for text in data.splitlines():
            if not text.strip():
                continue
            count += 1
            line = _decoder.decode(text)
            if line.commit_info is not None:
                info = line.commit_info
            actions.extend(_actions_of(line))
    except ValueError as error:  # msgspec's, and that of a path
        raise _corrupted(name, str(error)) from error
    if not count:
        raise _corrupted(name, "it is empty")
    if info.lines is not None and info.lines != count:
        raise _corrupted(name, f"it has {count} lines of {info.lines}")
    return Commit(info, actions)


def _actions_of(line: _Line) -> Iterable[Action]:
    if line.add is not None:
        yield _out_of_log(line.add)
    if line.remove is not None:
        yield _out_of_log(line.remove)
    if line.txn is not None:
        yield line.txn
    if line.meta_data is not None:
        yield line.meta_data
    if line.protocol is not None:
        yield line.protocol


def _corrupted(name: str, why: str) -> TierError:
    return TierError(f"{name} is corrupted: {why}", Code.MESSAGE_CORRUPTED)


def check_plain(table: str, actions: Iterable[Action]) -> None:
    """Raise TierError for features that only another engine reads or writes right; the table is then left alone."""
    for action in actions:
        feature = None
        if isinstance(action, AddFile):
            feature = "deletion vectors" if action.deletion_vector else None
        elif isinstance(action, Protocol):
            feature = _feature_of_protocol(action)
        elif isinstance(action, Metadata):
            feature = _feature_of_metadata(action)
        if feature:
            raise TierError(
                f"the table {table} uses {feature}, which this program does not know: it is left alone",
                Code.UNSUPPORTED,
            )


def _feature_of_protocol(protocol: Protocol) -> str | None:
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader <= READER_VERSION and writer <= WRITER_VERSION:
        return None
    named = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
    feature = ", ".join(named) or READER_FEATURES.get(reader) or WRITER_FEATURES.get(writer) or "a newer protocol"
    return f"{feature} (reader {reader}, writer {writer})"


def _feature_of_metadata(metadata: Metadata) -> str | None:
    configuration = metadata.configuration
    if (configuration.get("delta.columnMapping.mode") or "none") != "none":
        return "column mapping"
    if configuration.get("delta.enableDeletionVectors") == "true":
        return "deletion vectors"
    if configuration.get("delta.appendOnly") == "true":
        return "the property delta.appendOnly"
    if metadata.partition_columns:
        return "partition columns"
    if metadata.format.provider != PARQUET.provider:
        return f"files of the format {metadata.format.provider}"
    return None
