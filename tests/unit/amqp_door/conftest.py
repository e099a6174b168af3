"""An AMQP door without sockets, one for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.amqp.door import AmqpDoor


@pytest.fixture
async def door() -> AsyncIterator[AmqpDoor]:
    async with AmqpDoor() as made:
        yield made
