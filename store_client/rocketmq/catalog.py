"""Catalog: what the brokers say of their topics and groups, asked again and again, since they tell no changes.

A topic is of every broker whose table has it.  Where brokers may not be asked (their rights need the cluster's), topics
in use are kept fresh by their routes alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

from entrepot.domain.definitions.consumer_group import MAX_ATTEMPTS_LIMIT, UNLIMITED_ATTEMPTS, ConsumerGroup
from entrepot.domain.errors import AWAY, Code, EntrepotError
from entrepot.domain.names import check_group_name, check_stored_name, split_name
from entrepot.domain.topic import TopicType
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.dialect import table
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.kept_definitions import KeptDefinitions
from entrepot.store_client.rocketmq.routes import Route, broker_of_topic

PAGE: Final = 2_000
"""Topics or groups of one answer: a broker with many would pass the length of a frame."""
MAX_PAGES: Final = 500
_SYSTEM_GROUPS: Final = (
    "CID_",
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_",
    "__MONITOR_CONSUMER",
    "CLIENT_INNER_",
)
log = structlog.get_logger(__name__)


class Catalog:
    """The view of all topics and groups; `start` keeps it fresh."""

    def __init__(self, cluster: Cluster, kept: KeptDefinitions) -> None:
        self._cluster, self._kept = cluster, kept
        self.taken_out: set[str] = set()
        """Groups that were deleted here, and may still be in an answer under way."""

    async def start(self) -> None:
        """Look once, and go on looking.  Raises UNAVAILABLE where no name server or broker answers."""
        await self.look()
        self._cluster.keep("topics of the RocketMQ cluster", self._look_for_ever)

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._cluster.settings.route_refresh_ms / 1000)
            try:
                await self.look()
            except EntrepotError as refusal:
                log.warning("could not look at topics", seldom="rocketmq", problem=refusal.message)

    async def look(self) -> None:
        """Ask all brokers for their topics and groups.  Raises UNAVAILABLE if none answers."""
        before = {route.topic: route for route in self._cluster.routes.all()}
        masters = await self._cluster.masters()
        tables = await asyncio.gather(*map(self.topics_of, masters.values()), return_exceptions=True)
        refusals = [each for each in tables if isinstance(each, BaseException)]
        if unexpected := [each for each in refusals if not isinstance(each, EntrepotError)]:
            raise unexpected[0]
        if len(refusals) == len(tables):
            refusal = refusals[0]
            assert isinstance(refusal, EntrepotError)
            if refusal.code in AWAY:
                raise refusal
            log.warning("topics are known by their use alone", seldom="rocketmq", problem=refusal.message)
            return
        told = {name: each for name, each in zip(masters, tables, strict=True) if isinstance(each, dict)}
        self._learn_topics(told, masters, before)
        await self._look_at_groups(masters)

    async def topics_of(self, address: str) -> dict[str, Any]:
        """Return the definitions of a broker's topics (TopicConfig), by RocketMQ's names."""
        return await self._paged(address, codes.ALL_TOPIC_CONFIG, "topic", "topicConfigTable", "tell its topics")

    async def groups_of(self, address: str) -> dict[str, Any]:
        """Return the definitions of a broker's groups (SubscriptionGroupConfig), by RocketMQ's names."""
        return await self._paged(address, codes.ALL_GROUPS, "group", "subscriptionGroupTable", "tell its groups")

    async def _paged(self, address: str, code: int, kind: str, name: str, what: str) -> dict[str, Any]:
        """Return a whole table of a broker, page by page; an older broker gives all of it at once."""
        found: dict[str, Any] = {}
        total = f"total{kind.capitalize()}Num"
        for _ in range(MAX_PAGES):
            fields = {f"{kind}Seq": len(found), f"max{kind.capitalize()}Num": PAGE}
            answer = await self._cluster.ask(address, code, fields, what=what)
            page = table(answer.body, name)
            before = len(found)
            found |= page if isinstance(page, dict) else {}
            count = answer.fields.get(total, "")
            if len(found) == before or not count.isdecimal() or len(found) >= int(count):
                break
        return found

    def _learn_topics(
        self, told: Mapping[str, dict[str, Any]], masters: Mapping[str, str], before: Mapping[str, Route]
    ) -> None:
        """Take the brokers' tables, but for topics that were made, changed or deleted since they were asked for."""
        names, routes = self._cluster.names, self._cluster.routes
        seen: set[str] = set()
        for resource in sorted({name for each in told.values() for name in each}):
            name = names.name(resource)
            if self._cluster.is_systems(resource) or not names.is_ours(resource) or not _is_valid(name):
                continue
            seen.add(name)
            if routes.known(name) != before.get(name):
                continue
            having = {broker: each[resource] for broker, each in told.items() if isinstance(each.get(resource), dict)}
            made = [broker_of_topic(broker, masters[broker], config) for broker, config in having.items()]
            routes.learn(Route.of(name, made, _type_of(having.values())), asked=told)
        for route in routes.all():
            if route.topic not in seen and route == before.get(route.topic):
                routes.learn(Route(route.topic, (), route.type), asked=told)

    def is_systems_group(self, resource: str) -> bool:
        """True for groups of RocketMQ itself, and for those that gateways have there."""
        own = (self._cluster.settings.reader_group, self._cluster.settings.producer_group)
        return resource in own or resource.startswith(_SYSTEM_GROUPS)

    def _learn_group(
        self, name: str, config: Mapping[str, Any], kept: ConsumerGroup | None, before: ConsumerGroup | None
    ) -> None:
        """Take what a broker and the facts say of a group, unless it was put here since they were asked."""
        now = self._cluster.groups.get(name)
        if now == before:
            self._cluster.groups[name] = with_told(kept or self._cluster.group(name), config)

    async def _kept_groups(self) -> dict[str, ConsumerGroup]:
        try:
            await self._kept.look_at_namespaces()
            return await self._kept.groups()
        except EntrepotError as refusal:
            log.info("could not read definitions in facts", seldom="rocketmq", problem=refusal.message)
            return {}

    async def _look_at_groups(self, masters: Mapping[str, str]) -> None:
        taken_out, self.taken_out = self.taken_out, set()
        before = dict(self._cluster.groups)
        kept = await self._kept_groups()
        for address in masters.values():
            try:
                told = await self.groups_of(address)
            except EntrepotError as refusal:
                log.info("could not look at groups", seldom="rocketmq", problem=refusal.message)
                continue
            for resource, config in told.items():
                name = self._cluster.names.name(resource)
                is_other = self.is_systems_group(resource) or not self._cluster.names.is_ours(resource)
                if is_other or name in taken_out | self.taken_out:
                    continue
                if _is_valid_group(name) and isinstance(config, dict):
                    self._learn_group(name, config, kept.get(name), before.get(name))


def with_told(group: ConsumerGroup, config: Mapping[str, Any]) -> ConsumerGroup:
    """Return a group with what a broker keeps of it: its order, and its attempts."""
    retries = config.get("retryMaxTimes")
    attempts = group.max_attempts
    if isinstance(retries, int) and retries >= 0:
        attempts = retries + 1 if retries < MAX_ATTEMPTS_LIMIT else UNLIMITED_ATTEMPTS
    return replace(group, max_attempts=attempts, fifo=config.get("consumeMessageOrderly") is True)


def _type_of(configs: Iterable[Mapping[str, Any]]) -> TopicType:
    for config in configs:
        attributes = config.get("attributes")
        if isinstance(attributes, dict) and attributes.get("message.type") == TopicType.PRIORITY:
            return TopicType.PRIORITY
    return TopicType.NORMAL


def _is_valid(name: str) -> bool:
    if not name:
        return False
    try:
        check_stored_name(name, Code.ILLEGAL_TOPIC)
    except EntrepotError:
        return False
    return True


def _is_valid_group(name: str) -> bool:
    try:
        check_group_name(split_name(name)[1])
    except EntrepotError:
        return False
    return True
