"""Webhooks: subscriptions with the state of their delivery at all gateways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from entrepot.domain.errors import EntrepotError
from entrepot.domain.names import split_name
from entrepot.gateway.operations.local_views.webhook_deliveries import DELIVERIES, serve_deliveries
from entrepot.gateway.operations.nouns.known_subscriptions import CONSUMING, KnownSubscriptions
from entrepot.gateway.operations.nouns.subscription_shapes import SubscriptionShown, fields_of, state_of
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.gathered import AnsweredShown, PageOfAll, answered, readable
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.rights import HANDLERS_OWN
from entrepot.gateway.operations.row.shapes import EXAMPLES, Flag, Part, PlainName, Query, Time, one_of, shown_as
from entrepot.gateway.operations.row.times import time_shape

if TYPE_CHECKING:
    from entrepot.domain.clock import Clock
    from entrepot.domain.ports import Store
    from entrepot.gateway.events.subscriptions.record import Subscription
    from entrepot.gateway.events.webhooks.webhooks import Webhooks
    from entrepot.gateway.peers.gathered import Gathered
    from entrepot.gateway.peers.peers import Peers

MAX_LIMIT: Final = 200
MAX_DELAYS: Final = 16
"""Listed delays between attempts."""
COUNTED_AT_ONCE: Final = 16
"""Subscriptions that the store is asked about at once."""
_TIME: Final = "2026-12-01T08:00:00.000Z"


class CircuitShown(Part, frozen=True):
    state: Annotated[str, one_of(("closed", "open", "trying"))]
    failures: int
    open_seconds: float


class SinkAnswerShown(Part, frozen=True):
    time: Time | None
    status: int | None
    fault: str | None
    outcome: Annotated[str, one_of(("delivered", "retry", "gone", "refused"))]
    duration_ms: int
    events: int
    attempt: int


class DeliveryShown(Part, frozen=True):
    gateway: str
    requests: int
    circuit: CircuitShown
    retry_at: Time | None
    answers: list[SinkAnswerShown]


class HandshakeShown(Part, frozen=True):
    tries: int
    asked_at: Time | None
    next_at: Time | None


class WebhookShown(SubscriptionShown, frozen=True, kw_only=True):
    """A subscription with its delivery at all gateways"""

    namespace: str
    topic: str
    handshake: HandshakeShown
    quiet_until: Time | None
    waiting: int | None
    waiting_limit: int | None
    in_flight: int | None
    undispatched: int | None
    retry_delays_seconds: list[float]
    deliveries: list[DeliveryShown]


class WholeWebhookShown(WebhookShown, frozen=True, kw_only=True):
    """A subscription with its delivery and last answers at all gateways"""

    answered: AnsweredShown


_ANSWER: Final = SinkAnswerShown(_TIME, 503, "no answer in time", "delivered", 21, 1, 2)
shown_as(
    WebhookShown(
        **msgspec.structs.asdict(EXAMPLES[SubscriptionShown]),
        namespace="default",
        topic="factory",
        handshake=HandshakeShown(1, _TIME, _TIME),
        quiet_until=_TIME,
        waiting=12,
        waiting_limit=100_000,
        in_flight=1,
        undispatched=0,
        retry_delays_seconds=[1.0],
        deliveries=[DeliveryShown("gateway-1", 1, CircuitShown("closed", 0, 0.0), _TIME, [_ANSWER])],
    )
)


class WebhooksAsked(Query, frozen=True):
    source: Annotated[
        Annotated[str, Meta(max_length=256)] | None,
        Meta(description="Topic of the subscriptions"),
        Flag("Topic of the subscriptions.", name="--topic"),
    ] = None
    state: Annotated[
        Annotated[str, Meta(max_length=16)] | None,
        Meta(description="`active`, `unverified` or `suspended`"),
        Flag("State: active, unverified or suspended."),
    ] = None
    after: Annotated[
        str,
        Meta(max_length=64, description="Id after which the list begins"),
        Flag("Last id of an earlier list, to continue there.", "ID"),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT), Flag("Maximum number of subscriptions.")] = 50


def _cells(webhook: dict[str, Any]) -> tuple[object, ...]:
    """Return the cells of a webhook: what waits, perhaps with its limit, the worst circuit and the newest answer."""
    waiting, limit, deliveries = webhook["waiting"], webhook["waitingLimit"], webhook["deliveries"]
    waits = f"{waiting}, at most {limit}" if waiting is not None and limit is not None else waiting
    states = {each["circuit"]["state"] for each in deliveries}
    circuit = next((state for state in ("open", "trying", "closed") if state in states), "unknown")
    answers = (answer for each in deliveries for answer in each["answers"])
    newest = max(answers, key=lambda answer: str(answer["time"]), default=None)
    last = None if newest is None else f"{newest['status'] or newest['fault']} at {newest['time']}"
    return webhook["id"], webhook["topic"], webhook["sink"], webhook["status"]["state"], waits, circuit, last


WEBHOOKS: Final = Noun(
    "subscriptions", "/webhooks", "webhook", "Webhooks: subscriptions and their delivery.", is_in_namespaces=True
)


class WebhookDeliveries:
    """The operations of webhooks, and this gateway's answer to the others."""

    def __init__(
        self,
        known: KnownSubscriptions,
        webhooks: Webhooks,
        store: Store,
        peers: Peers,
        clock: Clock,
        max_waiting_events: int,
    ) -> None:
        """`max_waiting_events`: limit for a subscription to which nothing may be sent."""
        self.known, self._webhooks, self._store, self._peers = known, webhooks, store, peers
        self._clock, self._max_waiting_events = clock, max_waiting_events
        serve_deliveries(peers, known.all, webhooks)

    @WEBHOOKS.get(
        "",
        "listWebhooks",
        "List subscriptions with their delivery at all gateways, ordered by id",
        HANDLERS_OWN,
        shows={"next": "3f2a9c01d4e5b677"},
        words=Words(
            "list",
            "List subscriptions to topics that you may consume, ordered by id.",
            columns=("id", "topic", "sink", "state", "waiting", "circuit", "last answer"),
            cells=_cells,
            continued_by="--after",
        ),
    )
    async def listed(self, asked: Asked, query: WebhooksAsked) -> PageOfAll[WebhookShown]:
        known = self.known

        def is_wanted(each: Subscription) -> bool:
            return query.state in (None, state_of(each.record, known.all.state(each)))

        listed = known.listed(asked, query.after, query.source, is_wanted)
        shown = listed[: query.limit]
        delivered = await self._deliveries(shown, most=1)
        rows = [WebhookShown(**row) for row in await self._rows(shown, delivered)]
        return PageOfAll(rows, shown[-1].id if len(listed) > query.limit else None, answered(delivered))

    @WEBHOOKS.get(
        "/{id}",
        "getWebhook",
        "Get a subscription with its delivery and last answers at all gateways",
        CONSUMING,
        words=Words("show", "Show a subscription with its last answers at all gateways, always as JSON."),
    )
    async def show(self, id_: PlainName, asked: Asked) -> WholeWebhookShown:
        from entrepot.gateway.events.webhooks.last_answers import KEPT_ANSWERS

        subscription = self.known.get(asked.namespace, id_)
        delivered = await self._deliveries([subscription], most=KEPT_ANSWERS)
        [row] = await self._rows([subscription], delivered)
        return WholeWebhookShown(**row, answered=answered(delivered))

    async def _deliveries(self, subscriptions: Sequence[Subscription], most: int) -> Gathered:
        found = await self._peers.gather(DELIVERIES, {"keys": [each.key for each in subscriptions], "most": most})
        return readable(found, DeliveryShown, rows=lambda by_key: by_key.values())

    async def _rows(self, subscriptions: Sequence[Subscription], delivered: Gathered) -> list[dict[str, Any]]:
        import asyncio  # no command pays for it

        rows: list[dict[str, Any]] = []
        for start in range(0, len(subscriptions), COUNTED_AT_ONCE):
            some = subscriptions[start : start + COUNTED_AT_ONCE]
            rows += await asyncio.gather(*(self._row(each, delivered) for each in some))
        return rows

    async def _row(self, subscription: Subscription, delivered: Gathered) -> dict[str, Any]:
        """Return the fields of a shown webhook, by name."""
        from entrepot.gateway.events.webhooks.handshake import is_allowed

        record, subscriptions = subscription.record, self.known.all
        state, wait_ms = subscriptions.state(subscription), self._webhooks.handshake.wait_ms(subscription)
        waiting = await self._lag(subscription.group, subscription.feed, reads_all=True)
        dispatching = subscriptions.dispatch_group(subscription.topic)
        undispatched = None if dispatching is None else await self._lag(dispatching, subscription.topic)
        next_at = None if wait_ms is None else time_shape(self._clock.now_ms() + wait_ms)
        return {
            **fields_of(subscription, state),
            "namespace": record.namespace,
            "topic": split_name(record.topic)[1],
            "handshake": HandshakeShown(state.tries, time_shape(state.asked_ms), next_at),
            "quiet_until": time_shape(state.quiet_until_ms),
            "waiting": None if waiting is None else waiting[0],
            "waiting_limit": None if is_allowed(subscription, state) else self._max_waiting_events,
            "in_flight": None if waiting is None else waiting[1],
            "undispatched": None if undispatched is None else undispatched[0],
            "retry_delays_seconds": [
                min(record.initial_backoff_ms << attempt, record.max_backoff_ms) / 1000
                for attempt in range(min(record.max_attempts - 1, MAX_DELAYS))
            ],
            "deliveries": [
                msgspec.convert({**answer[subscription.key], "gateway": name}, DeliveryShown)
                for name, answer in sorted(delivered.answers.items())
                if subscription.key in answer
            ],
        }

    async def _lag(self, group: str, topic: str, *, reads_all: bool = False) -> tuple[int, int] | None:
        """Messages of a topic that a group has not settled, and those of them in flight; None where it is not known.
        `reads_all`: what the group has not begun to read counts as well."""
        from entrepot.gateway.events.webhooks.backlog import unread
        from entrepot.gateway.operations.row.statuses import group_statuses

        answers = await group_statuses(self._store, [group])
        if group in answers.partial or answers.missing:
            return None
        status = answers.statuses.get(group)
        progress = [] if status is None else [each for each in status.progress if each.topic == topic]
        if reads_all:
            try:
                progress += await unread(self._store, topic, progress)
            except EntrepotError:
                return None
        return sum(each.lag for each in progress), sum(each.in_flight for each in progress)
