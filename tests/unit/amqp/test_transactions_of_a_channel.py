"""Publishes of a transaction: they wait for its end, within a limit of bytes for each."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from entrepot.gateway.amqp.connections.publishing import PUBLISH_OVERHEAD, ChannelPublishing
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.reply_codes import ReplyCode
from tests.support.amqp.publishers import Publisher, Site, anybody

HEADER = ContentHeader.of()
PUBLISH = Publish("", "q", False, HEADER, bytes(1000))
SIZE = 1000 + len(HEADER.data) + PUBLISH_OVERHEAD


@pytest.fixture
async def publishing() -> AsyncIterator[ChannelPublishing]:
    site = await Site().open()
    await site.queue("q")
    services = site.door.services
    services.settings = services.settings.model_copy(update={"max_transaction_bytes": 3 * SIZE})
    channel = Publisher(site.door, anybody()).channel.publishing
    channel.is_tx = True
    yield channel
    await site.close()


async def test_a_transaction_has_its_bytes_for_itself(publishing: ChannelPublishing) -> None:
    for _ in range(5):
        assert publishing.take([PUBLISH, PUBLISH]) is None
        assert publishing.take([PUBLISH]) is None
        assert publishing.roll_back() == [PUBLISH] * 3
        assert publishing.roll_back() == []


async def test_a_transaction_that_is_too_large_is_refused(publishing: ChannelPublishing) -> None:
    publishing.take([PUBLISH])
    with pytest.raises(AmqpError, match="max_transaction_bytes") as refused:
        publishing.take([PUBLISH] * 3)
    assert refused.value.code is ReplyCode.PRECONDITION_FAILED
