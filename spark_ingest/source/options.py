"""The options of the source, read and checked. They have the names of Spark's Kafka source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from entrepot.domain.errors import EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.regular_expression import RegularExpression
from entrepot.domain.tiering import TierAddress
from entrepot.store_client.blocking import RocketMqPlace, StoreLocation

EARLIEST: Final = -2
LATEST: Final = -1
"""Special offset, as in Spark's Kafka source."""

KNOWN: Final = (
    "servers",
    "nameServers",
    "dataDir",
    "cluster",
    "zone",
    "tls.certificate",
    "tls.key",
    "tls.ca",
    "secretFile",
    "rocketmq.nameServers",
    "rocketmq.namespace",
    "rocketmq.addresses",
    "rocketmq.accessKey",
    "rocketmq.tls",
    "tier.url",
    "tier.endpoint",
    "tier.region",
    "tier.allowHttp",
    "tier.tables",
    "tier.direct",
    "path",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeProperties",
    "columns",
    "filter",
    "filterType",
    "parse",
    "schema",
    "group",
    "timeoutSeconds",
    "topic",
    "checkpointLocation",
    "queryName",
    "writerId",
    "format",
)
Offsets = dict[str, dict[int, int]]
"""Offsets by topic and queue."""


class OptionError(ValueError):
    """An option that cannot be used, with advice."""


class Parse(StrEnum):
    """Formats of bodies."""

    NONE = "none"
    JSON = "json"
    CBOR = "cbor"


@dataclass(frozen=True, slots=True)
class Start:
    """A place to start or to end, by one of four: `latest` or `earliest`, offsets by queue, a time (epoch milliseconds)
    for all queues, or times by queue."""

    word: str = ""
    offsets: Offsets | None = None
    time_ms: int | None = None
    times_ms: Offsets | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options. Empty `columns` are all columns. With `reads_directly`, executors read cold messages themselves."""

    location: StoreLocation
    topics: tuple[str, ...]
    pattern: str
    starting: Start | None
    ending: Start | None
    is_late_time_an_error: bool
    max_offsets: int | None
    max_bytes: int | None
    min_partitions: int | None
    max_records_per_partition: int
    fails_on_data_loss: bool
    includes_properties: bool
    columns: tuple[str, ...]
    filter: FilterExpression | None
    parse: Parse
    payload_schema: str
    group: str
    reads_directly: bool

    def wants_topic(self, name: str) -> bool:
        """True if a topic is subscribed to."""
        return _compiled(self.pattern).matches(name) if self.pattern else name in self.topics


@lru_cache(8)
def _compiled(pattern: str) -> RegularExpression:
    return RegularExpression(pattern, matches_whole=True)


def read_location(options: Mapping[str, str]) -> StoreLocation:
    """Return the store's location. Raises OptionError."""
    found = {name.lower(): value for name, value in options.items()}
    tls = tuple(found.get(f"tls.{name}", "") for name in ("certificate", "key", "ca"))
    try:
        return StoreLocation(
            brokers=listed(found.get("servers", "")),
            name_servers=listed(found.get("nameservers", "")),
            data_dir=found.get("datadir", ""),
            cluster=found.get("cluster", ""),
            tls=(tls[0], tls[1], tls[2]),
            secret_file=found.get("secretfile", ""),
            seconds=_number(found, "timeoutSeconds", 1) or 30,
            zone=found.get("zone", ""),
            tier=_tier(found),
            tables=listed(found.get("tier.tables", "")),
            rocketmq=_rocketmq(found),
        )
    except EntrepotError as error:
        raise OptionError(
            f"servers, nameServers, dataDir, rocketmq.nameServers or tier.url: {error.message}"
        ) from error


def _tier(options: Mapping[str, str]) -> TierAddress | None:
    url, endpoint, region = (options.get(f"tier.{name}", "") for name in ("url", "endpoint", "region"))
    return tier_address(url, endpoint, region, allow_http=_flag(options, "tier.allowHttp", default=False))


def tier_address(url: str, endpoint: str, region: str, *, allow_http: bool) -> TierAddress | None:
    """Return the object store's address, or None without one. Raises OptionError."""
    if not url and (endpoint or region):
        raise OptionError("an endpoint and a region are of an object store: give its URL, too")
    return TierAddress(url, endpoint, region, allow_http) if url else None


def _rocketmq(options: Mapping[str, str]) -> RocketMqPlace | None:
    servers, namespace, addresses, access_key = (
        options.get(f"rocketmq.{name}", "") for name in ("nameservers", "namespace", "addresses", "accesskey")
    )
    has_tls = _flag(options, "rocketmq.tls", default=False)
    return rocketmq_place(servers, namespace, addresses, access_key, has_tls=has_tls)


def rocketmq_place(
    name_servers: str, namespace: str, addresses: str, access_key: str, *, has_tls: bool
) -> RocketMqPlace | None:
    """Return the RocketMQ cluster, or None without name servers. `addresses`: a list of `told=reached`, both as
    host:port. Raises OptionError."""
    if not name_servers and (namespace or addresses or access_key or has_tls):
        raise OptionError("options of a RocketMQ cluster are of no use alone: give its name servers, too")
    if not name_servers:
        return None
    pairs = [each.partition("=") for each in listed(addresses)]
    if wrong := [told for told, _, reached in pairs if not told or not reached]:
        raise OptionError(f"addresses of a RocketMQ cluster are told=reached, as host:port each, not {wrong[0]!r}")
    reached = tuple((told.strip(), to.strip()) for told, _, to in pairs)
    return RocketMqPlace(listed(name_servers), namespace, reached, access_key, has_tls)


def check_names(options: Mapping[str, str]) -> None:
    """Raise OptionError for an unknown name, with the probable one."""
    known = {name.lower(): name for name in KNOWN}
    for name in options:
        if name.lower() not in known:
            close = get_close_matches(name.lower(), known, 1)
            hint = f": did you mean {known[close[0]]}?" if close else f". There are {', '.join(KNOWN)}"
            raise OptionError(f"there is no option {name!r}{hint}")


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """Return the options of a reader. Raises OptionError."""
    check_names(given)
    options = {name.lower(): value for name, value in given.items()}
    topics, pattern = listed(options.get("subscribe", options.get("path", ""))), options.get("subscribepattern", "")
    if bool(topics) == bool(pattern):
        raise OptionError("which topics? Give subscribe (a list) or subscribePattern, one of the two")
    try:
        if pattern:
            _compiled(pattern)
    except EntrepotError as error:
        raise OptionError(f"subscribePattern: {error.message}") from error
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError("startingOffsetsByTimestampStrategy is error or latest")
    parse = options.get("parse", "none").lower()
    if parse not in set(Parse):
        raise OptionError(f"parse is one of {', '.join(Parse)}, not {parse!r}")
    schema = options.get("schema", "")
    if schema and parse == Parse.NONE:
        raise OptionError("schema says what is in parsed bodies: give parse, too (json or cbor)")
    return SourceOptions(
        location=read_location(given),
        topics=topics,
        pattern=pattern,
        starting=_start(options, "starting"),
        ending=_start(options, "ending"),
        is_late_time_an_error=strategy == "error",
        max_offsets=_number(options, "maxOffsetsPerTrigger", 1),
        max_bytes=_number(options, "maxBytesPerTrigger", 1),
        min_partitions=_number(options, "minPartitions", 1),
        max_records_per_partition=_number(options, "maxRecordsPerPartition", 1) or 1_000_000,
        fails_on_data_loss=_flag(options, "failOnDataLoss", default=True),
        includes_properties=_flag(options, "includeProperties", default=False),
        columns=listed(options.get("columns", "")),
        filter=_filter(options),
        parse=Parse(parse),
        payload_schema=schema,
        group=options.get("group", ""),
        reads_directly=_flag(options, "tier.direct", default=True),
    )


def listed(text: str) -> tuple[str, ...]:
    """The parts of a list with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _number(options: Mapping[str, str], name: str, least: int) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise OptionError(f"{name} is a whole number, {least} or more, not {text!r}")
    return value


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise OptionError(f"{name} is true or false, not {text!r}")
    return text == "true"


def _filter(options: Mapping[str, str]) -> FilterExpression | None:
    text = options.get("filter", "")
    kinds = {"subtopic": FilterKind.SUB_TOPIC, "sql92": FilterKind.SQL92, "tag": FilterKind.TAG}
    kind = options.get("filtertype", "subTopic").lower()
    if kind not in kinds:
        raise OptionError("filterType is subTopic, sql92 or tag")
    if not text:
        return None
    expression = FilterExpression(kinds[kind], text)
    try:
        compile_filter(expression)
    except EntrepotError as error:
        raise OptionError(f"filter: {error.message}") from error
    return expression


def _start(options: Mapping[str, str], which: str) -> Start | None:
    """The start (`startingOffsets` and the like) or end (`endingOffsets`)."""
    offsets, time_ms = options.get(f"{which}offsets"), options.get(f"{which}timestamp")
    times = options.get(f"{which}offsetsbytimestamp")
    if sum(value is not None for value in (offsets, time_ms, times)) > 1:
        raise OptionError(f"{which}Offsets, {which}Timestamp, {which}OffsetsByTimestamp: give one of them")
    if time_ms is not None:
        return Start(time_ms=_number(options, f"{which}Timestamp", 0))
    if times is not None:
        return Start(times_ms=read_offsets(times, f"{which}OffsetsByTimestamp", least=0))
    if offsets is None:
        return None
    word = offsets.strip().lower()
    if word in ("earliest", "latest"):
        if which == "ending" and word == "earliest":
            raise OptionError("endingOffsets cannot be earliest: nothing would be read")
        return Start(word)
    return Start(offsets=read_offsets(offsets, f"{which}Offsets", least=EARLIEST))


def read_offsets(text: str, name: str, *, least: int) -> Offsets:
    """Parse `{"topic": {"0": 23, "1": -2}}`. Raises OptionError."""
    try:
        given: Any = json.loads(text)
        found = {
            topic: {int(queue): offset for queue, offset in queues.items() if _is_number(offset, least)}
            for topic, queues in given.items()
        }
        if any(len(found[topic]) != len(given[topic]) for topic in given):
            raise ValueError
    except (ValueError, AttributeError, TypeError) as error:
        raise OptionError(
            f'{name} is earliest, latest or a JSON object such as {{"factory": {{"0": 23, "1": -2}}}} '
            f"(-2 is earliest, -1 latest), not {text[:200]!r}"
        ) from error
    return found


def _is_number(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
