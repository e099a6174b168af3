"""All conversations, by name."""

from __future__ import annotations

from typing import Final

from tests.conformance.rocketmq.clients import ABOUT_CLIENTS
from tests.conformance.rocketmq.consuming import CONSUMING
from tests.conformance.rocketmq.producing import PRODUCING

CONVERSATIONS: Final = (*PRODUCING, *CONSUMING, *ABOUT_CLIENTS)
BY_NAME: Final = {conversation.name: conversation for conversation in CONVERSATIONS}
assert len(BY_NAME) == len(CONVERSATIONS), "each conversation has a name of its own"
