"""LogService: reading, healing and comparing the log of a replica, put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.remoting.link import Link
from broker.remoting.listener import Service
from broker.replication.comparing import Comparing
from broker.replication.healing import Healing
from broker.replication.log_source import LogSource
from broker.replication.replica import Replica
from broker.store.commit_log import CommitLog
from protocols.remoting import operations as wire


class LogService:
    """`compare_rate`: bytes a second that are compared with the master's."""

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
        """Put its operations into a service."""
        service.calls[wire.FETCH_LOG] = self.source.fetch
        service.calls[wire.LOG_CHECKSUMS] = self.source.checksums
        service.calls[wire.CHECK_LOG] = self.comparing.check

    def gauges(self) -> dict[str, float]:
        return {
            "records_healed": self.healing.healed,
            "records_harmed": self.healing.hopeless,
            "log_blocks_forked": len(self.comparing.forked),
        }

    def start(self) -> None:
        self.comparing.start()

    async def close(self) -> None:
        await self.comparing.close()
        await self.healing.close()
