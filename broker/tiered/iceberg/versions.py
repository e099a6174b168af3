"""Versions of a table's Iceberg metadata in the object store, in the layout of Hadoop's tables.

The folder's name begins with "_": no vacuum of Delta's touches it, whoever runs it. A version exists or it does not, by
`put_new`. Manifests have names of their own, so that what a killed writer left is in nobody's way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from entrepot.broker.tiered.iceberg.manifests import decode_list
from entrepot.broker.tiered.iceberg.metadata import Ground, decode_metadata
from entrepot.broker.tiered.objects import MissingObjectError, ObjectStore, TierError, put_or_find
from entrepot.domain.errors import Code

FOLDER: Final = "_iceberg"
HINT: Final = "version-hint.text"
SLACK_MS: Final = 60_000
"""Largest difference between the store's clocks, in milliseconds."""
MAX_DELETED: Final = 1_000
"""Most objects of one request to delete."""
_VERSION: Final = re.compile(r"v(\d{1,18})\.metadata\.json")


def metadata_name(version: int) -> str:
    """Return the name of a version."""
    return f"v{version}.metadata.json"


class Versions:
    """The versions of one table. All calls raise TierError for a failing store."""

    def __init__(self, objects: ObjectStore, root: str) -> None:
        self._objects = objects
        url = objects.url.rstrip("/")
        url = unquote(url) if url.startswith("file:") else url  # readers take a path as it is
        self.table = f"{url}/{root}"
        """URI of the table: those of its files begin with it."""
        self.location = f"{self.table}/{FOLDER}"
        self._folder = f"{root}/{FOLDER}/metadata/"

    def uri(self, name: str) -> str:
        """Return the URI of an object beside the metadata."""
        return f"{self.location}/metadata/{name}"

    def put(self, name: str, data: bytes) -> None:
        """Store a manifest, or a list of them, whose name nobody else has."""
        self._objects.put_new(self._folder + name, data)

    def get(self, uri: str) -> bytes:
        """Return a manifest, or a list of them. Raises ValueError for one that is elsewhere."""
        name = uri.removeprefix(f"{self.location}/metadata/")
        if "/" in name:
            raise ValueError(f"{uri} is not in {self.location}")
        return self._objects.get(self._folder + name)

    def newest(self, known: int) -> tuple[int, bytes]:
        """Return the newest version and its contents; 0 where there is none. `known`: one that was there, or 0."""
        version = known or self._hinted()
        data = self._get(version) if version else None
        if data is None:
            version = max(self._listed(), default=0)
            data = self._get(version) if version else b""
        while (later := self._get(version + 1)) is not None:
            version, data = version + 1, later
        if data is None:
            raise TierError(f"{self.uri(metadata_name(version))} is in the list, and is not there")
        return version, data

    def commit(self, version: int, data: bytes) -> None:
        """Store a version. Raises PRECONDITION_FAILED where another's is in its place."""
        path = self._folder + metadata_name(version)
        if put_or_find(self._objects, path, data) not in (None, data):
            raise TierError(f"{path} is another's: it is made anew", Code.PRECONDITION_FAILED)

    def hint(self, version: int) -> None:
        """Tell the newest version to readers that know the folder alone."""
        told = self._hinted()
        if told < version or (told > version and self._get(told) is None):  # another writer may be ahead
            self._objects.replace(self._folder + HINT, str(version).encode())

    def sweep(self, before_ms: int, table_id: str) -> int:
        """Delete what no version has that was the newest since `before_ms`, in epoch milliseconds; return its number.

        Whatever a later version has and that one has not was stored after it: who writes begins with the version
        before his own.
        """
        found = list(self._objects.objects(self._folder))
        times = {}
        for each in found:
            if match := _VERSION.fullmatch(each.path[len(self._folder) :]):
                times[int(match[1])] = each.modified_ms
        if not (old := [version for version, time_ms in times.items() if time_ms < before_ms]):
            return 0
        floor = max(old)
        ground = decode_metadata(floor, self._objects.get(self._folder + metadata_name(floor)), table_id, self.location)
        if ground is None:
            return 0
        kept = self._needed(ground)
        since_ms = times[floor] - SLACK_MS
        gone = [self._folder + metadata_name(version) for version in sorted(times) if version < floor]
        for each in found:
            name = each.path[len(self._folder) :]
            if name.endswith(".avro") and each.modified_ms < since_ms and self.uri(name) not in kept:
                gone.append(each.path)
        for start in range(0, len(gone), MAX_DELETED):
            self._objects.delete(gone[start : start + MAX_DELETED])
        return len(gone)

    def _needed(self, ground: Ground) -> set[str]:
        """Return the URIs of the manifests of a version, and of their lists."""
        lists = [each["manifest-list"] for each in ground.told["snapshots"]]
        try:
            manifests = {each.manifest_path for uri in lists for each in decode_list(self.get(uri))}
        except ValueError as error:
            raise TierError(f"{self.location} is corrupted: {error}", Code.MESSAGE_CORRUPTED) from None
        return {*lists, *manifests}

    def _hinted(self) -> int:
        try:
            text = self._objects.get(self._folder + HINT)
        except MissingObjectError:
            return 0
        return int(text) if text.isdigit() else 0

    def _listed(self) -> Iterator[int]:
        for each in self._objects.objects(self._folder):
            if match := _VERSION.fullmatch(each.path[len(self._folder) :]):
                yield int(match[1])

    def _get(self, version: int) -> bytes | None:
        try:
            return self._objects.get(self._folder + metadata_name(version))
        except MissingObjectError:
            return None
