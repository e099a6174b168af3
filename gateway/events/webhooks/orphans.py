"""Orphans: feeds and groups without a subscription, left by a gateway that died while it made or deleted one.

They are remembered, and deleted if they still have no subscription at the next sweep. A subscription is made right
after its feed, so that is time enough.
"""

from __future__ import annotations

import re
from typing import Final

import structlog

from entrepot.domain.errors import NOT_THERE, EntrepotError
from entrepot.domain.names import SUBSCRIPTION_FEED_PREFIX, is_subscription_feed, split_name
from entrepot.domain.ports import Store
from entrepot.gateway.events.subscriptions.record import CATCH_UP_PREFIX, DISPATCH_PREFIX, GROUP_PREFIX
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions

SWEEP_SECONDS: Final = 600.0
_OF_SUBSCRIPTION = re.compile(f"(?:{GROUP_PREFIX}|{CATCH_UP_PREFIX})([0-9a-f]{{16}})")
_OF_TOPIC = re.compile(f"{DISPATCH_PREFIX}.+~[0-9a-f]{{12}}")

log = structlog.get_logger(__name__)


class Orphans:
    """The sweeper of orphans, to be called every SWEEP_SECONDS; several gateways may do so at once."""

    def __init__(self, store: Store, subscriptions: Subscriptions) -> None:
        self._store, self._subscriptions = store, subscriptions
        self._suspects: set[tuple[str, str]] = set()

    async def sweep(self) -> int:
        """Delete the orphans that were also there at the last sweep; return their number."""
        found = {("topic", name) for name in self._feeds()} | {("group", name) for name in self._groups()}
        dead, self._suspects = found & self._suspects, found
        for kind, name in sorted(dead):
            log.info("deleting the leftovers of a subscription", kind=kind, name=name)
            try:
                await (
                    self._store.topology.delete_topic(name)
                    if kind == "topic"
                    else self._store.topology.delete_group(name)
                )
            except EntrepotError as error:
                if error.code not in NOT_THERE:  # the others are deleted all the same, and it at the next sweep
                    log.warning("an orphan cannot be deleted now", kind=kind, name=name, problem=error.message)
        return len(dead)

    def _feeds(self) -> list[str]:
        found = (topic.name for topic in self._store.topology.topics() if is_subscription_feed(topic.name))
        return [name for name in found if not self._is_known(*_feed(name))]

    def _groups(self) -> list[str]:
        dispatching = {record.group for _, record in self._subscriptions.dispatched()}
        orphans = []
        for group in self._store.topology.groups():
            namespace, plain = split_name(group.name)
            own = _OF_SUBSCRIPTION.fullmatch(plain)
            if own is not None:
                is_orphan = not self._is_known(namespace, own[1])
            else:
                is_orphan = _OF_TOPIC.fullmatch(plain) is not None and group.name not in dispatching
            if is_orphan:
                orphans.append(group.name)
        return orphans

    def _is_known(self, namespace: str, subscription_id: str) -> bool:
        return self._subscriptions.get(namespace, subscription_id) is not None


def _feed(name: str) -> tuple[str, str]:
    """Namespace and subscription of a feed."""
    namespace, plain = split_name(name)
    return namespace, plain.removeprefix(SUBSCRIPTION_FEED_PREFIX)
