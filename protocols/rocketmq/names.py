"""Names, times and addresses: ours to the wire's, and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from entrepot.domain.names import DEFAULT_NAMESPACE, qualified, split_name
from entrepot.protocols.rocketmq import v2_pb2 as v2

MS_PER_SECOND: Final = 1000
NANOS_PER_MS: Final = 1_000_000

Address = tuple[str, int]
"""Host and port."""

_SYSTEM_TOPICS: Final = frozenset(
    {
        *("TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"),
        *("CHECKPOINT_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"),
    }
)
_SYSTEM_TOPIC_PREFIXES: Final = ("rmq_sys_", "RMQ_SYS_")
_SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"


def is_rocketmq_topic(name: str) -> bool:
    """True for a topic of RocketMQ's own (`TopicValidator.isSystemTopic` of 5.5.0), which its proxy refuses."""
    return name in _SYSTEM_TOPICS or name.startswith(_SYSTEM_TOPIC_PREFIXES)


def is_rocketmq_group(name: str) -> bool:
    """True for a consumer group of RocketMQ's own (`MixAll.isSysConsumerGroup`), which its proxy refuses."""
    return name.startswith(_SYSTEM_GROUP_PREFIX)


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The cluster's resource namespace of our namespace `default`; the others keep their names."""

    home: str = ""

    def resource(self, name: str) -> v2.Resource:
        """Return the resource of a topic's or group's stored name."""
        namespace, plain = split_name(name)
        return v2.Resource(resource_namespace=self.home if namespace == DEFAULT_NAMESPACE else namespace, name=plain)

    def name(self, resource: v2.Resource) -> str:
        """Return the name of a resource.  One without a namespace is in `default`."""
        namespace = resource.resource_namespace
        return qualified(DEFAULT_NAMESPACE if namespace in ("", self.home) else namespace, resource.name)


def timestamp(epoch_ms: int) -> Timestamp:
    """Return the timestamp of epoch milliseconds."""
    seconds, rest = divmod(epoch_ms, MS_PER_SECOND)
    return Timestamp(seconds=seconds, nanos=rest * NANOS_PER_MS)


def duration(milliseconds: int) -> Duration:
    """Return the duration of milliseconds."""
    seconds, rest = divmod(milliseconds, MS_PER_SECOND)
    return Duration(seconds=seconds, nanos=rest * NANOS_PER_MS)


def milliseconds(value: Timestamp | Duration) -> int:
    """Return the milliseconds of a duration, or epoch milliseconds of a timestamp; finer parts are cut off."""
    return value.seconds * MS_PER_SECOND + value.nanos // NANOS_PER_MS


def endpoints(addresses: Iterable[Address]) -> v2.Endpoints:
    """Return endpoints of one scheme: that of the first address."""
    listed = list(addresses)
    found = v2.Endpoints(scheme=_scheme(listed[0][0]) if listed else v2.ADDRESS_SCHEME_UNSPECIFIED)
    found.addresses.extend(v2.Address(host=host, port=port) for host, port in listed)
    return found


def addresses(found: v2.Endpoints) -> tuple[Address, ...]:
    """Return the addresses of endpoints, in their order."""
    return tuple((address.host, address.port) for address in found.addresses)


def _scheme(host: str) -> v2.AddressScheme.ValueType:
    try:
        return v2.IPv4 if ip_address(host).version == 4 else v2.IPv6
    except ValueError:
        return v2.DOMAIN_NAME
