"""Properties of carried messages: all are kept but two.

`user_id` is checked against the publisher's login, and dropped where it differs. The header `CC` names further routing
keys: the source has delivered to them already, so it is renamed `x-cc`.
"""

from __future__ import annotations

from typing import Final

from pamqp.commands import Basic

CC: Final = "CC"
CARRIED_CC: Final = "x-cc"
ORIGINAL_EXCHANGE: Final = "x-original-exchange"
ORIGINAL_ROUTING_KEY: Final = "x-original-routing-key"


def carried_properties(
    properties: Basic.Properties, login: str, origin: tuple[str, str] | None
) -> tuple[Basic.Properties, bool]:
    """Return the properties to publish with, and True if some could not be kept; `properties` may be changed. `login`
    is the publisher's; `origin` is the exchange and routing key for headers, if wanted."""
    is_changed = False
    if properties.user_id and properties.user_id != login:
        properties.user_id = None
        is_changed = True
    headers = properties.headers
    if headers and CC in headers:
        headers[CARRIED_CC] = headers.pop(CC)
        is_changed = True
    if origin is not None:
        exchange, routing_key = origin
        properties.headers = {**(headers or {}), ORIGINAL_EXCHANGE: exchange, ORIGINAL_ROUTING_KEY: routing_key}
    return properties, is_changed
