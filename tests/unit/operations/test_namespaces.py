"""Namespaces as their operations tell them: without HTTP."""

from __future__ import annotations

import pytest

from entrepot.domain.names import qualified
from entrepot.domain.topic import Topic
from entrepot.gateway.operations.nouns.namespaces import NamespaceChange, Namespaces, NamespacesAsked
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.shapes import PlainName
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore


async def test_they_are_made_listed_and_deleted() -> None:
    store = MemoryStore(ManualClock())
    namespaces = Namespaces(store, None)
    for name in ("b", "a", "ab"):
        made = await namespaces.put(PlainName(name), NamespaceChange())
        assert (made.is_new, made.value.name, made.value.vhost) == (True, name, None)
    assert not (await namespaces.put(PlainName("a"), NamespaceChange())).is_new
    await store.topology.put_topic(Topic(qualified("a", "t"), queues=1))
    whole = await namespaces.listed(NamespacesAsked())
    assert [(each.name, each.topics) for each in whole.value] == [("default", 0), ("a", 1), ("ab", 0), ("b", 0)]
    assert whole.next is None
    page = await namespaces.listed(NamespacesAsked(find="A", limit=2))
    assert ([each.name for each in page.value], page.next) == (["default", "a"], "a")
    rest = await namespaces.listed(NamespacesAsked(find="A", after="a"))
    assert ([each.name for each in rest.value], rest.next) == (["ab"], None)
    await namespaces.delete(PlainName("b"))
    for asked in (namespaces.show, namespaces.delete):
        with pytest.raises(MissingError, match="there is no namespace 'b'"):
            await asked(PlainName("b"))
