"""The shared subscriptions of all recorded sessions, connected or away, of every gateway."""

from __future__ import annotations

from typing import Final

from entrepot.domain.ports import Store
from entrepot.domain.ports.key_value_pages import key_value_pages
from entrepot.gateway.mqtt.sessions.opening import readable
from entrepot.gateway.mqtt.sessions.record import SESSION_PREFIX
from entrepot.gateway.mqtt.topics.names import SHARE, Share, parse_share

PAGE: Final = 500


async def shared_filters(store: Store) -> set[Share]:
    """Return name and filter of each. Raises what the store raises."""
    found: set[Share] = set()
    async for page in key_value_pages(store.key_values, SESSION_PREFIX, PAGE):
        for each in page:
            record = readable(each.key.removeprefix(SESSION_PREFIX), each)
            for subscription in () if record is None else record.subscriptions:
                share = parse_share(subscription.filter) if subscription.filter.startswith(SHARE) else None
                if share is not None:
                    found.add(share)
    return found
