"""KnownControllers: the addresses of a cluster's controllers, as a replica knows them.

Members come and go by an operator's word (`cluster controller replace`), and no setting changes by that. Each of them
names all. A replica keeps what it was told beside its state: after a restart it finds those that are left, even if none
of its settings is. One that has left names those that came. A replica that was away while all that it knew were
replaced asks the other replicas.

A controller that is cut off from the others still names those that it knew. So what was learnt from a later entry of
their log stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from entrepot.broker.store.small_files import decode_json, put_durably
from entrepot.domain.replication.control import ControllerView

FILE: Final = "controllers.json"
MAX_CONTROLLERS: Final = 64
"""Most addresses that are kept."""
log = structlog.get_logger(__name__)


class Learnt(msgspec.Struct, frozen=True):
    """Addresses as one controller told them: of the group `cluster`, at this index of its log."""

    addresses: tuple[str, ...] = ()
    cluster: str = ""
    applied: int = 0

    def is_later_than(self, view: ControllerView) -> bool:
        """True if a controller tells less than is known."""
        return self.cluster == view.cluster and self.applied > view.applied


_STORED: Final[Any] = Learnt | tuple[str, ...]
"""Content of the file; versions before kept the addresses alone."""


class KnownControllers:
    """The addresses. `named`: those of the settings, which stay."""

    def __init__(self, data_dir: Path, named: tuple[str, ...]) -> None:
        self._path, self._named = data_dir / FILE, named
        self._learnt = self._kept() if named else Learnt()
        self._hinted: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """host:port of all, those of the settings first."""
        return tuple(dict.fromkeys((*self._named, *self._learnt.addresses, *self._hinted)))

    def hint(self, addresses: Iterable[str]) -> bool:
        """Take the controllers that other replicas know, until one of them tells who leads; True if some are new."""
        before = self.addresses
        self._hinted = tuple(dict.fromkeys(addresses))[:MAX_CONTROLLERS] if self._named else ()
        return set(before) != set(self.addresses)

    def learn(self, views: Iterable[ControllerView], cluster: str) -> bool:
        """Take the members that the most advanced of these controllers names, as a hint where none knows who leads.
        True if that changes the addresses. `cluster`: the group of controllers that is obeyed; empty: any."""
        of_it = [each for each in views if each.members and cluster in ("", each.cluster)]
        later = [view for view in of_it if not self._learnt.is_later_than(view)]
        if not later:
            return False
        latest = max(later, key=lambda view: (bool(view.leader), view.applied))
        members = tuple(address for _, address in latest.members if address)[:MAX_CONTROLLERS]
        if not latest.leader:  # it has left, perhaps, and knows who came
            return self.hint((*members, *self._hinted))
        before, self._hinted = self.addresses, ()
        is_new = set(members) != set(self._learnt.addresses)
        self._learnt = Learnt(members, latest.cluster, latest.applied)
        if is_new:
            self._keep()
        return set(before) != set(self.addresses)

    def _kept(self) -> Learnt:
        try:
            found = decode_json(self._path.read_bytes(), _STORED)
        except FileNotFoundError:
            return Learnt()
        except (OSError, msgspec.DecodeError) as error:  # it only spares asking
            log.warning("the known controllers cannot be read", path=str(self._path), problem=str(error))
            return Learnt()
        learnt = found if isinstance(found, Learnt) else Learnt(found)
        return msgspec.structs.replace(learnt, addresses=learnt.addresses[:MAX_CONTROLLERS])

    def _keep(self) -> None:
        try:
            put_durably(self._path, msgspec.json.encode(self._learnt))
        except OSError as error:
            log.warning("the known controllers are not kept", path=str(self._path), problem=str(error))
