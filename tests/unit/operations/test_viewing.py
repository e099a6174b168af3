"""The viewer as its operations tell it: without HTTP."""

from __future__ import annotations

from base64 import b64encode

import pytest

from entrepot.domain.access.model import Decision
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.topic import Permission, Topic
from entrepot.gateway.operations.nouns.viewing import OneAsked, ViewAsked, Viewing
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.reading import read_query
from entrepot.gateway.operations.row.schema import parameters_of
from entrepot.gateway.operations.row.seen import Contents
from entrepot.gateway.operations.row.shapes import PlainName, TopicName
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import Settings
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced

SHOP = TopicName("shop")


class World:
    """A topic with messages, and the audit of looks at them."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.store = MemoryStore(clock)
        self.security = Security(self.store.key_values, Settings().security, clock)
        contents = Contents(self.security, ())
        allowing = replaced(self.security, why=lambda *_: Decision(True, "as told"))
        self.viewing = Viewing(self.store, allowing, contents)
        self.without_rights = Viewing(self.store, self.security, contents)

    async def keep(self, *bodies: bytes, permission: Permission = Permission.READ_WRITE) -> None:
        await self.store.topology.put_topic(Topic(SHOP, queues=1))
        self.store.messages.append([Message(SHOP, body, SHOP, keys=("k",), queue_id=0) for body in bodies])
        await self.store.topology.put_topic(Topic(SHOP, queues=1, permission=permission))

    def looks(self) -> list[tuple[str, str]]:
        return [(each.resource, each.detail) for each in self.security.audit.entries() if each.is_look]


@pytest.fixture
def world() -> World:
    return World()


async def test_a_queue_is_viewed_in_either_direction_and_looks_are_noted(world: World) -> None:
    await world.keep(b"0", b"1", b"two", b"3")
    newest = await world.viewing.view(SHOP, asked(), ViewAsked(queue=0, limit=2))
    assert ([each.offset for each in newest.value], newest.next) == (["3", "2"], "2")
    assert (newest.min_offset, newest.max_offset) == ("0", "4")
    before = await world.viewing.view(SHOP, asked(), ViewAsked(queue=0, offset=newest.next, body_bytes=0))
    assert ([each.offset for each in before.value], before.next) == (["1", "0"], None)
    assert [each.body for each in before.value] == [None, None]
    cut = await world.viewing.view(SHOP, asked(), ViewAsked(queue=0, offset="2", direction="forward", body_bytes=1))
    assert [(each.body, each.is_cut) for each in cut.value] == [
        (b64encode(b"t").decode(), True),
        (b64encode(b"3").decode(), False),
    ]
    found = await world.viewing.view(SHOP, asked(), ViewAsked(body_text="TWO"))
    assert ([each.offset for each in found.value], found.looked_at, found.max_offset) == (["2"], 4, None)
    assert [detail for _, detail in world.looks()] == [
        "queue 0, offsets 2 to 3: 2 bodies",
        "queue 0, offsets 2 to 3: 2 bodies",
        "queue 0, offsets 2 to 2: 1 body",
    ]


@pytest.mark.parametrize("has_right", [False, True])
async def test_who_may_not_read_sees_places_and_cannot_search(world: World, *, has_right: bool) -> None:
    await world.keep(b"secret", permission=Permission.WRITE if has_right else Permission.READ_WRITE)
    viewing = world.viewing if has_right else world.without_rights
    [row] = (await viewing.view(SHOP, asked(), ViewAsked())).value
    assert (row.is_hidden, row.size, row.keys, row.properties, row.body) == (True, 6, None, None, None)
    for search in (ViewAsked(key="k"), ViewAsked(text="k"), ViewAsked(body_text="s"), ViewAsked(filter="*")):
        with pytest.raises(EntrepotError) as refused:
            await viewing.view(SHOP, asked(), search)
        assert refused.value.code is Code.FORBIDDEN
    with pytest.raises(EntrepotError, match="topic 'shop' is not readable"):
        await viewing.body(SHOP, PlainName("0"), PlainName("0"), asked(name="shop"))
    assert world.looks() == []


async def test_one_message_and_its_body_as_a_file(world: World) -> None:
    await world.keep(b"0", b"one")
    queue, offset = PlainName("0"), PlainName("1")
    one = await world.viewing.one(SHOP, queue, offset, asked(), OneAsked())
    assert (one.offset, one.body) == ("1", b64encode(b"one").decode())
    file = await world.viewing.body(SHOP, queue, offset, asked(name='sh"op'))
    assert file.body == b"one"
    assert file.headers["content-disposition"] == 'attachment; filename="sh_op-0-1.bin"'
    assert world.looks() == [
        ("Topic:shop", "queue 0, offsets 1 to 1: 1 body"),
        ("Topic:shop", "queue 0, offset 1: download"),
    ]
    with pytest.raises(MissingError, match="no message is at offset 2"):
        await world.viewing.one(SHOP, queue, PlainName("2"), asked(), OneAsked())
    with pytest.raises(EntrepotError, match="offset: 'x' is not the number of a offset"):
        await world.viewing.one(SHOP, queue, PlainName("x"), asked(), OneAsked())
    with pytest.raises(EntrepotError, match="there is no queue 7"):
        await world.viewing.one(SHOP, PlainName("7"), offset, asked(), OneAsked())


async def test_parameters_that_do_not_go_together_are_refused(world: World) -> None:
    await world.keep(b"0")
    with pytest.raises(EntrepotError, match="queue: is missing beside offset"):
        await world.viewing.view(SHOP, asked(), ViewAsked(offset="0"))
    with pytest.raises(EntrepotError, match="key and cursor are for all queues"):
        await world.viewing.view(SHOP, asked(), ViewAsked(queue=0, key="k"))
    with pytest.raises(EntrepotError, match="there is no topic 'none'"):
        await world.viewing.view(TopicName("none"), asked(), ViewAsked())


def test_a_pattern_is_documented_and_its_refusal_tells_it() -> None:
    told = next(each for each in parameters_of(ViewAsked, "query") if each["name"] == "offset")
    assert told["schema"]["anyOf"][0] == {"type": "string", "pattern": "^[0-9]{1,19}$"}
    with pytest.raises(EntrepotError) as refused:
        read_query(ViewAsked, [("offset", "-1")])
    assert refused.value.message == "offset: String should match pattern '^[0-9]{1,19}$'"
