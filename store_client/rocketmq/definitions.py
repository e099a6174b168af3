"""The definitions of a RocketMQ cluster, for those who move: topics, groups, users and rights, by our names.

RocketMQ's own topics and groups, retry topics, dead letters and lite queues (LMQ) are nobody's definitions.  A
definition that cannot be taken as it is, is told with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from entrepot.domain.access.model import SUBJECT_PREFIX, Policy, is_user_name
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import LATEST, ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import DEAD_LETTER_PREFIX, check_group_name, check_namespace, check_topic_name, split_name
from entrepot.domain.retry_policy import MAX_DELAYS, RetryKind, RetryPolicy
from entrepot.domain.topic import Cleanup, Permission, Topic, TopicType
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.dialect import read
from entrepot.store_client.rocketmq.catalog import Catalog, with_told
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.kept_definitions import KeptDefinitions
from entrepot.store_client.rocketmq.rights import rights_of
from entrepot.store_client.rocketmq.settings import RocketMqSettings

_PERMISSIONS: Final = {
    0: Permission.NONE,
    2: Permission.WRITE,
    4: Permission.READ,
    6: Permission.READ_WRITE,
}
_TYPE, _CLEANUP = "message.type", "cleanup.policy"
_DEFAULT_DELAYS_MS: Final = tuple(
    1000 * seconds for seconds in (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
)
"""Delays of a group that names none, from the first retry on."""
_SKIPPED_DELAYS: Final = 2
"""RocketMQ begins a group's own list of delays behind these."""
_KEEPS_USERS: Final = re.compile(r"^authenticationMetadataProvider *= *\S", re.MULTILINE)
"""Setting of a broker that keeps users.  One without it answers questions after them with an error of its own."""


@dataclass(frozen=True, slots=True)
class ClusterUser:
    """A user.  `secret` signs the requests; empty: the cluster does not tell it."""

    name: str
    is_super: bool
    is_enabled: bool
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A definition that is not taken, or not all of it.  `kind`: topics, groups, users or policies."""

    kind: str
    namespace: str
    name: str
    reason: str


@dataclass(slots=True)
class ClusterDefinitions:
    """The definitions of a cluster, each kind by name."""

    topics: list[Topic] = field(default_factory=list)
    groups: list[ConsumerGroup] = field(default_factory=list)
    users: list[ClusterUser] = field(default_factory=list)
    policies: list[Policy] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


async def read_definitions(settings: RocketMqSettings, clock: Clock) -> ClusterDefinitions:
    """Ask all masters of a cluster for their definitions.  Raises UNAVAILABLE where one does not answer, FORBIDDEN
    where it does not tell its topics and groups."""
    cluster = Cluster(settings, clock, ConsumerGroup("defaults"))
    try:
        return await _Reader(cluster).read()
    finally:
        await cluster.close()


class _Reader:
    """One look at a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._catalog = cluster, Catalog(cluster, KeptDefinitions(None))
        self._found = ClusterDefinitions()

    async def read(self) -> ClusterDefinitions:
        masters = await self._cluster.masters()
        topics = await self._cluster.ask_all(masters, self._catalog.topics_of)
        groups = await self._cluster.ask_all(masters, self._catalog.groups_of)
        for resource, told in _by_name(topics).items():
            if not self._cluster.is_systems(resource) and not resource.startswith(DEAD_LETTER_PREFIX):
                self._take("topics", resource, told, self._take_topic)
        for resource, told in _by_name(groups).items():
            if not self._catalog.is_systems_group(resource):
                self._take("groups", resource, told, self._take_group)
        await self._ask_for("users", masters, codes.LIST_USERS, {"filter": ""}, "username", self._take_user)
        acls = {"subjectFilter": "", "resourceFilter": ""}
        await self._ask_for("policies", masters, codes.LIST_ACLS, acls, "subject", self._take_policy)
        return self._found

    # -- topics and groups -------------------------------------------------------------------------------------------

    def _take(
        self, kind: str, resource: str, told: dict[str, Any], take: Callable[[str, dict[str, Any]], None]
    ) -> None:
        name = self._cluster.names.name(resource)
        try:
            if not self._cluster.names.is_ours(resource):
                home = self._cluster.names.home
                raise EntrepotError(Code.BAD_REQUEST, f"it is outside of the namespace {home!r}, `default` here")
            check_namespace(split_name(name)[0])
            take(name, told)
        except EntrepotError as refusal:
            self._leave_out(kind, name, refusal.message)

    def _leave_out(self, kind: str, name: str, reason: str) -> None:
        namespace, plain = split_name(name) if kind in ("topics", "groups") else ("", name)
        self._found.left_out.append(LeftOut(kind, namespace, plain, reason))

    def _take_topic(self, name: str, told: dict[str, Any]) -> None:
        check_topic_name(split_name(name)[1])
        configs = [config for config in told.values() if isinstance(config, dict)]
        kind = _attribute(configs[0], _TYPE)
        if kind == "LITE":
            raise EntrepotError(Code.UNSUPPORTED, "its lite topics are made by their use: make the topic alone")
        reads, writes = (max(_count(each, key) for each in configs) for key in ("readQueueNums", "writeQueueNums"))
        queues = max(reads, writes)
        bits = 0
        for config in configs:
            bits |= _count(config, "perm") & 6
        topic = Topic(
            name,
            queues,
            TopicType.PRIORITY if kind == TopicType.PRIORITY else TopicType.NORMAL,
            _PERMISSIONS[bits],
            write_queues=writes if 0 < writes < queues else None,
            cleanup=Cleanup.COMPACT if _attribute(configs[0], _CLEANUP) == "COMPACTION" else Cleanup.DELETE,
        )
        self._found.topics.append(topic)
        shapes = {
            (_count(each, "readQueueNums"), _count(each, "writeQueueNums"), _count(each, "perm")) for each in configs
        }
        if len(shapes) > 1 or len(configs) < len(self._cluster.brokers):
            self._leave_out("topics", name, f"brokers differ: every broker here gets {queues} queues")

    def _take_group(self, name: str, told: dict[str, Any]) -> None:
        check_group_name(split_name(name)[1])
        config = next(each for each in told.values() if isinstance(each, dict))
        group = with_told(ConsumerGroup(name), config)
        if config.get("consumeFromMinEnable") is False:
            group = replace(group, start=LATEST)
        self._found.groups.append(replace(group, retry=_retry_of(config)))
        if _count(config, "retryMaxTimes") != group.max_attempts - 1:
            self._leave_out("groups", name, f"{config.get('retryMaxTimes')} retries: it gets {group.max_attempts - 1}")
        if config.get("consumeEnable") is False:
            self._leave_out("groups", name, "it may not consume there: here it may")

    # -- users and rights --------------------------------------------------------------------------------------------

    async def _ask_for(
        self,
        kind: str,
        masters: Mapping[str, str],
        code: int,
        fields: Mapping[str, object],
        key: str,
        take: Callable[[str, dict[str, Any]], None],
    ) -> None:
        """Take what the brokers list, each of which has all of it; a broker without users has none to tell."""
        by_name: dict[str, dict[str, Any]] = {}
        for broker, address in masters.items():
            try:
                answer = await self._cluster.ask(address, code, fields, what=f"list its {kind}")
            except EntrepotError as refusal:
                if await self._may_have_users(address, refusal):
                    self._leave_out(kind, "", f"broker {broker!r}: {refusal.message}")
                continue
            listed = read(answer.body) if answer.body else []
            for told in listed if isinstance(listed, list) else ():
                if isinstance(told, dict) and told.get(key):
                    by_name.setdefault(str(told[key]), {})[broker] = told
        for name, told_by in sorted(by_name.items()):
            told = next(iter(told_by.values()))
            if any(each != told for each in told_by.values()):
                self._leave_out(kind, name, f"brokers differ: what {next(iter(told_by))!r} has is taken")
            take(name, told)

    async def _may_have_users(self, address: str, refusal: EntrepotError) -> bool:
        """True unless it is certain that a broker which refuses to list users keeps none."""
        if refusal.code is Code.UNSUPPORTED:
            return False
        if refusal.code is not Code.INTERNAL_ERROR:
            return True
        try:
            told = await self._cluster.ask(address, codes.BROKER_CONFIG, what="tell its settings")
        except EntrepotError:
            return True
        return _KEEPS_USERS.search(told.body.decode("utf-8", "replace")) is not None

    def _take_user(self, name: str, told: dict[str, Any]) -> None:
        if not is_user_name(name):
            self._leave_out("users", name, "no user here may have this name")
            return
        is_super = str(told.get("userType", "")).lower() == "super"
        is_enabled = str(told.get("userStatus") or "enable").lower() == "enable"
        self._found.users.append(ClusterUser(name, is_super, is_enabled, str(told.get("password") or "")))

    def _take_policy(self, subject: str, told: dict[str, Any]) -> None:
        name = subject.removeprefix(SUBJECT_PREFIX)
        rights = rights_of(told, self._cluster.names.home)
        for remark in rights.remarks:
            self._leave_out("policies", name, remark)
        if rights.statements:
            self._found.policies.append(Policy(name, tuple(rights.statements)))


def _by_name(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what brokers have of each name, by broker."""
    names = sorted({name for table in tables.values() for name in table})
    return {
        name: {broker: table[name] for broker, table in tables.items() if isinstance(table.get(name), dict)}
        for name in names
    }


def _attribute(config: Mapping[str, Any], name: str) -> str:
    attributes = config.get("attributes")
    return str(attributes.get(name, "")) if isinstance(attributes, dict) else ""


def _count(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    return value if isinstance(value, int) else 0


def _retry_of(config: Mapping[str, Any]) -> RetryPolicy:
    """Return the retry policy of a SubscriptionGroupConfig.  A group in order has none unless it names one."""
    told = config.get("groupRetryPolicy")
    policy = told if isinstance(told, dict) else {}
    exponential, custom = policy.get("exponentialRetryPolicy"), policy.get("customizedRetryPolicy")
    if policy.get("type") == "EXPONENTIAL":
        given = exponential if isinstance(exponential, dict) else {}
        initial_ms, max_ms = int(given.get("initial", 5_000)), int(given.get("max", 7_200_000))
        return RetryPolicy(RetryKind.EXPONENTIAL, initial_ms, max_ms, float(given.get("multiplier", 2)))
    if isinstance(custom, dict) and isinstance(custom.get("next"), list) and custom["next"]:
        delays = custom["next"][_SKIPPED_DELAYS:] or custom["next"][-1:]
        return RetryPolicy(RetryKind.LIST, delays_ms=tuple(map(int, delays[:MAX_DELAYS])))
    if config.get("consumeMessageOrderly") is True:
        return RetryPolicy()
    return RetryPolicy(RetryKind.LIST, delays_ms=_DEFAULT_DELAYS_MS)
