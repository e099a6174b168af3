"""A start reads bindings before exchanges and queues: what comes looks at its own bindings, not at all that wait."""

from __future__ import annotations

import pytest

from entrepot.gateway.amqp.virtual_hosts.orphans import Orphans
from entrepot.gateway.amqp.virtual_hosts.records import BindingRecord, ExchangeRecord, QueueRecord
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
from entrepot.protocols.amqp.field_table import encode_table

QUEUES, EACH = 200, 5
NONE = encode_table({})


def test_each_waiting_binding_is_looked_at_once_for_each_end(monkeypatch: pytest.MonkeyPatch):
    looks = 0
    pop = Orphans.pop

    def counted(orphans: Orphans, key: str) -> BindingRecord | None:
        nonlocal looks
        looks += 1
        return pop(orphans, key)

    monkeypatch.setattr(Orphans, "pop", counted)
    vhost = Vhost("default")
    bindings = [(f"q{number % QUEUES}", f"key.{number}") for number in range(QUEUES * EACH)]
    for number, (queue, key) in enumerate(bindings):
        vhost.apply(f"b{number}", BindingRecord("x", "queue", queue, key, NONE))
    assert not list(vhost.bindings())
    vhost.apply("x", ExchangeRecord("x", "topic", True, False, False, NONE))
    for number in range(QUEUES):
        vhost.apply(f"q{number}", QueueRecord(f"q{number}", True, False, False, NONE))
    assert len(list(vhost.bindings())) == QUEUES * EACH
    assert looks == 2 * QUEUES * EACH
    assert vhost._orphans.of("x") == []


def test_a_binding_between_one_exchange_and_itself_waits_once():
    orphans = Orphans()
    record = BindingRecord("x", "exchange", "x", "", NONE)
    orphans.put("b", record)
    assert orphans.of("x") == ["b"]
    assert orphans.pop("b") is record
    assert (orphans.pop("b"), orphans.of("x")) == (None, [])
