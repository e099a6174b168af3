"""Subscriptions as a caller may know them: who may consume all of a topic sees those to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from entrepot.domain.access.model import EVERYTHING, Action, ResourceType, access_name, whole_topic
from entrepot.domain.access.model import Request as Need
from entrepot.domain.names import split_name
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.rights import PROTOCOL, Right

if TYPE_CHECKING:
    from entrepot.domain.access.model import Principal
    from entrepot.gateway.events.subscriptions.record import Subscription
    from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
    from entrepot.gateway.security.security import Security


class KnownSubscriptions:
    """All subscriptions, and who may see them."""

    def __init__(self, all_: Subscriptions, security: Security) -> None:
        self.all, self.security = all_, security

    def may_consume(self, principal: Principal, names: str) -> bool:
        """Return True if a principal may consume these topics."""
        return self.security.allows(principal, Action.SUB, ResourceType.TOPIC, names, PROTOCOL)

    def listed(
        self,
        asked: Asked,
        after: str,
        topic: str | None,
        is_wanted: Callable[[Subscription], bool] = lambda each: True,
    ) -> list[Subscription]:
        """Return those of the path's namespace that the caller may consume, by id, after the id `after`.  `topic`:
        plain name; None for all.  `is_wanted` is asked before the rights are."""
        found = (
            each
            for each in self.all.all()
            if each.record.namespace == asked.namespace
            and each.id > after
            and topic in (None, split_name(each.topic)[1])
            and is_wanted(each)
            and self.may_consume(asked.principal, whole_topic(each.topic))
        )
        return sorted(found, key=lambda each: each.id)

    def get(self, namespace: str, id_: str) -> Subscription:
        """Return a subscription.  Raises MissingError."""
        found = self.all.get(namespace, id_)
        if found is None:
            raise MissingError(
                "subscription-not-found", "The subscription does not exist", f"there is no subscription {id_[:80]!r}"
            )
        return found


class _HasSubscriptions(Protocol):
    """An object of a noun of subscriptions."""

    known: KnownSubscriptions


def _needs(own: _HasSubscriptions, asked: Asked) -> list[Need]:
    """Consuming the topic of the path's subscription; if that does not exist, all topics, so that existence is not
    revealed."""
    found = own.known.all.get(asked.namespace, asked.plain["id"])
    return [Need(Action.SUB, ResourceType.TOPIC, EVERYTHING if found is None else whole_topic(found.topic))]


def _needs_to_change(own: _HasSubscriptions, asked: Asked) -> list[Need]:
    """As `_needs`; and for another user's subscription, changing its topic."""
    found, needs = own.known.all.get(asked.namespace, asked.plain["id"]), _needs(own, asked)
    if found is not None and found.record.owner not in ("", asked.principal.name):
        needs.append(Need(Action.UPDATE, ResourceType.TOPIC, access_name(found.topic)))
    return needs


CONSUMING: Final = Right(
    _needs, lambda asked: f"to consume the topic of subscription {asked.plain['id'][:80]!r} is not allowed"
)
CHANGING: Final = Right(
    _needs_to_change,
    lambda asked: (
        f"to change subscription {asked.plain['id'][:80]!r} is not allowed: it is its user's, or of who may"
        " consume and change its topic"
    ),
)
