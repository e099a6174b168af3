"""The consumers of a group: those connected to any gateway, and those that the store knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.definitions.consumer_group import GroupStatus
from entrepot.domain.url import host_of
from entrepot.gateway.messaging.group_consumer import GroupConsumer
from entrepot.gateway.operations.local_views.group_consumers import (
    CONSUMERS,
    consumer_shape,
    serve_group_consumers,
)
from entrepot.gateway.operations.nouns.group_lag import status_of
from entrepot.gateway.operations.row.gathered import AnsweredShown, answered, readable
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import on
from entrepot.gateway.operations.row.shapes import GroupName, Part, shown_as

if TYPE_CHECKING:
    from entrepot.domain.ports import Store
    from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
    from entrepot.gateway.messaging.membership import Memberships
    from entrepot.gateway.peers.peers import Peers

MAX_TOPICS: Final = 100
"""Most topics of a group whose members are looked up."""


class ConsumerShown(Part, frozen=True):
    door: Annotated[str, Meta(description="`amqp`, `mqtt` and so on; `member`: of a group; `webhook`: a subscription")]
    client: str
    user: str | None
    address: str | None
    topics: list[str]
    queues: list[int] | None
    held: int | None
    detail: str | None
    gateway: str | None


class GroupConsumersShown(Part, frozen=True):
    value: list[ConsumerShown]
    is_cut: bool
    answered: AnsweredShown


shown_as(
    ConsumerShown("amqp", "line-1", "bob", "127.0.0.1", ["orders"], [0], 1, "$share/workers/orders/#", "host-1:8080")
)

GROUP_CONSUMERS: Final = Noun("groups", "/groups/{name}", "consumer", is_in_namespaces=True)


class GroupConsumers:
    """The operation of consumers, and this gateway's answers to the others."""

    def __init__(
        self,
        store: Store,
        memberships: Memberships,
        subscriptions: Subscriptions,
        peers: Peers,
        consumers_of: Callable[[str], Sequence[GroupConsumer]],
    ) -> None:
        self._store, self._memberships, self._subscriptions, self._peers = store, memberships, subscriptions, peers
        serve_group_consumers(peers, consumers_of)

    @GROUP_CONSUMERS.get(
        "/consumers",
        "listGroupConsumers",
        "List the consumers of a group, of every protocol",
        on(ResourceType.GROUP, Action.GET),
        about="`gateway` is null for members and webhooks, which are of no one gateway.",
        shows={"isCut": False},
    )
    async def listed(self, name: GroupName) -> GroupConsumersShown:
        _, status = await status_of(self._store, name)
        found = readable(await self._peers.gather(CONSUMERS, {"group": name}), ConsumerShown)
        rows = [{**row, "gateway": gateway} for gateway, answer in found.answers.items() for row in answer["value"]]
        rows += [{**consumer_shape(each), "gateway": None} for each in await self._of_the_store(status)]
        is_cut = any(answer["isCut"] for answer in found.answers.values())
        shown = msgspec.convert(rows, list[ConsumerShown])
        shown.sort(key=lambda row: (row.door, row.client, row.detail or ""))
        return GroupConsumersShown(shown, is_cut, answered(found))

    async def _of_the_store(self, status: GroupStatus) -> list[GroupConsumer]:
        """Return the consumers that the store knows, whatever their gateway: members, and webhooks."""
        group = status.group.name
        found = [
            GroupConsumer("webhook", each.record.id, topics=(each.topic,), detail=host_of(each.record.sink))
            for each in self._subscriptions.all()
            if group in (each.group, each.catch_up_group)
        ]
        for topic in sorted({queue.topic for queue in status.progress})[:MAX_TOPICS]:
            membership = await self._memberships.members(group, topic)
            queues = membership.assignment()
            found += [
                GroupConsumer("member", member.id, topics=(topic,), queues=tuple(queues[member.id]))
                for member in membership.members
            ]
        return found
