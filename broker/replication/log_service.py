"""LogService: a replica's log for others: reading, healing and comparing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from entrepot.broker.remoting.link import Link
from entrepot.broker.remoting.service import Service
from entrepot.broker.replication.comparing import Comparing
from entrepot.broker.replication.healing import Healing
from entrepot.broker.replication.log_source import LogSource
from entrepot.broker.replication.replica import Replica
from entrepot.broker.store.commit_log import CommitLog
from entrepot.broker.store.diverged import DivergedPart
from entrepot.domain.ports.cluster import LogCondition
from entrepot.protocols.wire import operations as wire


class LogService:
    """The service. `compare_rate`: bytes a second that are compared with the master's."""

    def __init__(
        self,
        compare_rate: int,
        links: Mapping[int, Link],
        machine: Callable[[], Replica],
        commit_log: Callable[[], CommitLog | None],
    ) -> None:
        self.source = LogSource(machine, commit_log)
        self.healing = Healing(links, machine, commit_log)
        self.comparing = Comparing(compare_rate, links, self.source, self.healing, machine, commit_log)

    def install(self, service: Service) -> None:
        """Register its operations with a service."""
        service.calls[wire.FETCH_LOG] = self.source.fetch
        service.calls[wire.LOG_CHECKSUMS] = self.source.checksums
        service.calls[wire.CHECK_LOG] = self.comparing.check

    def condition(self, diverged: list[DivergedPart], copies_from: int) -> LogCondition:
        """Return the condition of the log, with its cuts, and the replica that it is copied from."""
        healing, parts = self.healing, tuple((part.start, part.end) for part in diverged)
        lost = sum(part.confirmed - part.start for part in diverged)
        return LogCondition(healing.healed, healing.hopeless, len(self.comparing.forked), parts, copies_from, lost)

    def start(self) -> None:
        self.comparing.start()

    async def close(self) -> None:
        await self.comparing.close()
        await self.healing.close()
