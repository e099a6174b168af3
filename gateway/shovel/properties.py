"""Properties of a message that is carried: what may not stay as it is.

They go on as they came, but for two.  `user_id` is checked against the login of who publishes, and goes where it is
another.  The header `CC` names further routing keys: the source has delivered to them already, so it is called `x-cc`.
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
    """The properties to publish with, and whether something of them could not stay.  `login`: who publishes.
    `origin`: exchange and routing key, where they are to be headers.  The given ones may be changed."""
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
