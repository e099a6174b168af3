"""The key-values of virtual hosts.

| key                                          | value                          |
|----------------------------------------------|--------------------------------|
| `amqp/<namespace>/exchange/<encoded name>`   | `ExchangeRecord`               |
| `amqp/<namespace>/queue/<encoded name>`      | `QueueRecord`                  |
| `amqp/<namespace>/binding/<hash>`            | `BindingRecord`                |
| `amqp/<namespace>/policy/<encoded name>`     | `PolicyRecord`, of users       |
| `amqp/<namespace>/operator/<encoded name>`   | `PolicyRecord`, of operators   |
| `amqp/<namespace>/deleted/<encoded name>`    | `DeletedRecord`, of exchanges  |

Values are msgpack arrays; a field is only ever added at the end, with a default.  Arguments are AMQP's own encoding of
a table, so that they keep their types.  Names in keys are `domain.entity_name`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from entrepot.domain.entity_name import encoded_name
from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.domain.exchanges.exchange import Exchange, ExchangeType
from entrepot.domain.queues.declaration import QueueDeclaration, declared_queue
from entrepot.domain.queues.policy import ApplyTo, Policy
from entrepot.protocols.amqp.field_table import decode_table, encode_table

PREFIX: Final = "amqp/"
NOW_KEY: Final = f"{PREFIX}default/now/now"
"""A key without meaning: the watch tells its write after all earlier ones."""
POLICY, OPERATOR_POLICY = "policy", "operator"
KINDS: Final = ("exchange", "queue", "binding", POLICY, OPERATOR_POLICY, "deleted")


class ExchangeRecord(msgspec.Struct, array_like=True):
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: bytes
    gateway: str = ""


class QueueRecord(msgspec.Struct, array_like=True):
    """A queue; an exclusive one belongs to `connection`, a transient one to `gateway`, which made it."""

    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: bytes
    gateway: str = ""
    connection: str = ""
    made_at_ms: int = 0


class BindingRecord(msgspec.Struct, array_like=True):
    source: str
    kind: str
    destination: str
    routing_key: str
    arguments: bytes


class PolicyRecord(msgspec.Struct, array_like=True):
    """A policy; `definition` is JSON, as it was given."""

    name: str
    pattern: str
    definition: bytes
    priority: int
    apply_to: str
    is_operators: bool = False


class DeletedRecord(msgspec.Struct, array_like=True):
    """A deleted exchange: its Topic is not one until it is declared again.  A higher number is a newer record."""

    name: str
    number: int


Record = ExchangeRecord | QueueRecord | BindingRecord | PolicyRecord | DeletedRecord
_RECORDS: Final[dict[str, msgspec.msgpack.Decoder[Any]]] = {
    "exchange": msgspec.msgpack.Decoder(ExchangeRecord),
    "queue": msgspec.msgpack.Decoder(QueueRecord),
    "binding": msgspec.msgpack.Decoder(BindingRecord),
    POLICY: msgspec.msgpack.Decoder(PolicyRecord),
    OPERATOR_POLICY: msgspec.msgpack.Decoder(PolicyRecord),
    "deleted": msgspec.msgpack.Decoder(DeletedRecord),
}
encode_record: Final = msgspec.msgpack.Encoder().encode


def decode_record(kind: str, value: bytes) -> Record:
    """Decode a record. Raises `msgspec.DecodeError`."""
    found: Record = _RECORDS[kind].decode(value)
    return found


def split_key(key: str) -> tuple[str, str] | None:
    """Namespace and kind of a key; None for a foreign one."""
    parts = key.removeprefix(PREFIX).split("/")
    return (parts[0], parts[1]) if len(parts) == 3 and parts[1] in KINDS else None


def exchange_key(namespace: str, name: str) -> str:
    return f"{PREFIX}{namespace}/exchange/{encoded_name(name)}"


def deleted_key(namespace: str, name: str) -> str:
    return f"{PREFIX}{namespace}/deleted/{encoded_name(name)}"


def queue_key(namespace: str, name: str) -> str:
    return f"{PREFIX}{namespace}/queue/{encoded_name(name)}"


def binding_key(namespace: str, binding: Binding) -> str:
    """The key of a binding, by the identity of a binding."""
    parts = (binding.source, binding.destination_kind.value, binding.destination, binding.routing_key)
    text = "".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogateescape")
    digest = blake2b(text + encode_table(dict(sorted(binding.arguments.items()))), digest_size=16).hexdigest()
    return f"{PREFIX}{namespace}/binding/{digest}"


def policy_key(namespace: str, name: str, *, is_operators: bool) -> str:
    return f"{PREFIX}{namespace}/{OPERATOR_POLICY if is_operators else POLICY}/{encoded_name(name)}"


def exchange_record(exchange: Exchange, gateway: str) -> bytes:
    return encode_record(
        ExchangeRecord(
            exchange.name,
            exchange.type.value,
            exchange.durable,
            exchange.auto_delete,
            exchange.internal,
            encode_table(dict(exchange.arguments)),
            "" if exchange.durable else gateway,
        )
    )


def binding_record(binding: Binding) -> bytes:
    return encode_record(
        BindingRecord(
            binding.source,
            binding.destination_kind.value,
            binding.destination,
            binding.routing_key,
            encode_table(dict(binding.arguments)),
        )
    )


def policy_record(policy: Policy) -> bytes:
    return encode_record(
        PolicyRecord(
            policy.name,
            policy.pattern,
            msgspec.json.encode(dict(policy.definition)),
            policy.priority,
            policy.apply_to.value,
            policy.is_operators,
        )
    )


def policy_of(record: PolicyRecord) -> Policy:
    """Return the policy of a record. Raises BAD_REQUEST for one that this version does not understand."""
    definition = msgspec.json.decode(record.definition, type=dict[str, object])
    return Policy(
        record.name, record.pattern, definition, record.priority, ApplyTo(record.apply_to), record.is_operators
    )


def exchange_of(record: ExchangeRecord) -> Exchange:
    return Exchange(
        record.name,
        ExchangeType(record.type),
        record.durable,
        record.auto_delete,
        record.internal,
        arguments_of(record.arguments),
    )


def binding_of(record: BindingRecord) -> Binding:
    kind = DestinationKind(record.kind)
    return Binding(record.source, record.destination, record.routing_key, arguments_of(record.arguments), kind)


def declaration_of(record: QueueRecord, vhost: str) -> QueueDeclaration:
    return declared_queue(
        record.name,
        vhost,
        durable=record.durable,
        exclusive=record.exclusive,
        auto_delete=record.auto_delete,
        arguments=arguments_of(record.arguments),
    )


def arguments_of(data: bytes) -> Mapping[str, object]:
    """Decode an encoded table of arguments."""
    table, _ = decode_table(data, 0, len(data))
    return table
