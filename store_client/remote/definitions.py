"""Definitions over several brokers: the prevailing one of a topic, group or namespace, and the repairs of brokers.

Every broker has every definition, and none depends on another for it.  The highest revision prevails; a deletion has a
revision too, and removes everything not above it.  A gateway that sees brokers disagree tells those that are behind.
This module plans that from its arguments alone, so all gateways decide alike.

The plan of repairs is empty exactly when all brokers agree.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import msgspec

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.deletions import Deletions
from entrepot.domain.names import is_system_topic
from entrepot.domain.topic import Topic
from entrepot.protocols.wire.operations import Definitions

_encode: Final = msgspec.json.Encoder().encode
_D = TypeVar("_D", Topic, ConsumerGroup)


@dataclass(slots=True)
class BrokerView:
    """The definitions of one broker, as it told; kept while it is away.  `gone_namespaces`: the deletions of namespaces
    among `deleted`, which may be many."""

    name: str = ""
    topics: dict[str, Topic] = field(default_factory=dict)
    groups: dict[str, ConsumerGroup] = field(default_factory=dict)
    namespaces: dict[str, int] = field(default_factory=dict)
    deleted: Deletions = field(default_factory=Deletions)
    gone_namespaces: set[str] = field(default_factory=set)
    changes: int = 0

    def apply(self, told: Definitions, *, is_first: bool) -> tuple[list[str], list[str]]:
        """Apply what it told; `is_first`: it is everything it has.  Returns the topics and groups that may differ, in
        order."""
        self.name = told.info.name
        topics = {topic.name: topic for topic in told.topics}
        groups = {group.name: group for group in told.groups}
        touched_topics = [*topics, *told.gone_topics]
        touched_groups = [*groups, *told.gone_groups]
        if is_first:
            touched_topics += self.topics
            touched_groups += self.groups
            self.topics, self.groups = topics, groups
            self.deleted = Deletions()
            self.gone_namespaces.clear()
        else:
            self.topics.update(topics)
            self.groups.update(groups)
            for name in told.gone_topics:
                self.topics.pop(name, None)
            for name in told.gone_groups:
                self.groups.pop(name, None)
        self._note_deletions(told.deleted)
        if told.namespaces is not None:
            self.namespaces = told.namespaces
        self.changes += 1
        touched_topics += [what.removeprefix("topic/") for what in told.deleted if what.startswith("topic/")]
        touched_groups += [what.removeprefix("group/") for what in told.deleted if what.startswith("group/")]
        return list(dict.fromkeys(touched_topics)), list(dict.fromkeys(touched_groups))

    def took_topic(self, topic: Topic) -> None:
        """Note that it took a definition, unless it has told of another one that is not older, or of its deletion.

        It answers as well where it kept what it had: of one revision, what came first.
        """
        _take(self.topics, topic, self.deleted.get(f"topic/{topic.name}", 0))

    def took_group(self, group: ConsumerGroup) -> None:
        """Note that it took a group, as `took_topic`."""
        _take(self.groups, group, self.deleted.get(f"group/{group.name}", 0))

    def dropped_topic(self, name: str, revision: int) -> None:
        """Note that it has deleted a topic up to a revision."""
        _drop(self.topics, name, revision)
        if not is_system_topic(name):
            self._note_deletions({f"topic/{name}": revision})

    def dropped_group(self, name: str, revision: int) -> None:
        """Note that it has deleted a group up to a revision."""
        _drop(self.groups, name, revision)
        self._note_deletions({f"group/{name}": revision})

    def took_namespace(self, name: str, revision: int) -> None:
        """Note that it has a namespace at a revision."""
        self.namespaces[name] = revision
        self.changes += 1

    def dropped_namespace(self, name: str, revision: int) -> None:
        """Note that it has deleted a namespace at a revision."""
        self.namespaces.pop(name, None)
        self._note_deletions({f"namespace/{name}": revision})

    def _note_deletions(self, deleted: Mapping[str, int]) -> None:
        news, forgotten = self.deleted.note(deleted)
        self.gone_namespaces.update(what for what in news if what.startswith("namespace/"))
        self.gone_namespaces.difference_update(forgotten)
        self.changes += 1


def _take(known: dict[str, _D], definition: _D, deleted: int) -> None:
    held = known.get(definition.name)
    if isinstance(definition, Topic):  # the broker gives this number, and tells it
        definition = replace(definition, made_at=held.made_at if isinstance(held, Topic) else 0)
    if (held is None or held.revision < definition.revision) and not 0 < definition.revision <= deleted:
        known[definition.name] = definition


def _drop(known: dict[str, _D], name: str, revision: int) -> None:
    if name in known and known[name].revision <= revision:
        del known[name]


def localized(topic: Topic, broker: str) -> Topic:
    """Return the definition as one broker keeps it, with its own count of queues.  A broker outside the placement keeps
    it with a single queue, which nobody uses."""
    if not topic.placement:
        return topic
    queues = max(topic.queues_on(broker), 1)
    write_queues = None if topic.write_queues is None else min(topic.write_queues, queues)
    return replace(topic, queues=queues, write_queues=write_queues)


def prevailing_topic(name: str, views: list[BrokerView]) -> Topic | None:
    """Return the prevailing definition of a topic, or None."""
    found = [view.topics[name] for view in views if name in view.topics]
    held = _prevailing(f"topic/{name}", found, views)
    if held is not None and held.placement:
        return replace(held, queues=max(queues for _, queues in held.placement))
    return held


def prevailing_group(name: str, views: list[BrokerView]) -> ConsumerGroup | None:
    """Return the prevailing definition of a group, or None."""
    return _prevailing(f"group/{name}", [view.groups[name] for view in views if name in view.groups], views)


def _prevailing(what: str, found: list[_D], views: list[BrokerView]) -> _D | None:
    if not found:
        return None
    highest = found[0]
    for other in found[1:]:
        if other.revision > highest.revision or (
            other.revision == highest.revision and other != highest and _rank(other) > _rank(highest)
        ):
            highest = other
    gone = deletion(what, views)
    return highest if highest.revision > gone or not gone else None


def _rank(each: Topic | ConsumerGroup) -> tuple[int, bytes]:
    """Return the rank among equal revisions: most queues first, since others have `write_queues` cut."""
    return each.queues if isinstance(each, Topic) else 0, _encode(each)


def deletion(what: str, views: list[BrokerView]) -> int:
    """Return the revision of the last deletion that any broker knows of; 0 if there was none."""
    return max((view.deleted.get(what, 0) for view in views), default=0)


def prevailing_namespaces(views: list[BrokerView]) -> dict[str, int]:
    """Return every prevailing namespace, with its revision."""
    found: dict[str, int] = {}
    for view in views:
        for name, revision in view.namespaces.items():
            found[name] = max(revision, found.get(name, 0))
    return {
        name: revision
        for name, revision in found.items()
        if not (gone := deletion(f"namespace/{name}", views)) or revision > gone
    }


class PrevailingNamespaces:
    """The prevailing namespaces, merged once after each change of a broker's view."""

    def __init__(self) -> None:
        self._views: list[tuple[BrokerView, int]] = []
        self._found: dict[str, int] = {}

    def of(self, views: list[BrokerView]) -> dict[str, int]:
        """Return every prevailing namespace, with its revision."""
        known = self._views
        if len(known) != len(views) or any(
            view is not before or view.changes != changes for view, (before, changes) in zip(views, known, strict=True)
        ):
            self._found = prevailing_namespaces(views)
            self._views = [(view, view.changes) for view in views]
        return self._found


@dataclass(slots=True)
class Repairs:
    """Messages that bring one broker to agreement.  Deletions are names with revisions."""

    namespaces: list[tuple[str, int]] = field(default_factory=list)
    topics: list[Topic] = field(default_factory=list)
    groups: list[ConsumerGroup] = field(default_factory=list)
    gone_topics: list[tuple[str, int]] = field(default_factory=list)
    gone_groups: list[tuple[str, int]] = field(default_factory=list)
    gone_namespaces: list[tuple[str, int]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(
            self.namespaces
            or self.topics
            or self.groups
            or self.gone_topics
            or self.gone_groups
            or self.gone_namespaces
        )


def plan_repairs(
    view: BrokerView,
    views: list[BrokerView],
    topics: Collection[str] | None = None,
    groups: Collection[str] | None = None,
) -> Repairs:
    """Return the repairs of the broker of `view`; `views` are those of all brokers, it included.  `topics` and
    `groups`: those to examine; None is all."""
    plan = Repairs()
    gone = _deletions(views, topics, groups)
    if topics is None:
        topics = {name for each in views for name in each.topics}
    if groups is None:
        groups = {name for each in views for name in each.groups}
    held_namespaces = prevailing_namespaces(views)
    plan.namespaces = [
        (name, revision) for name, revision in held_namespaces.items() if view.namespaces.get(name, -1) < revision
    ]
    for name in topics:
        topic = None if is_system_topic(name) else prevailing_topic(name, views)
        mine = view.topics.get(name)
        if topic is not None:
            theirs = [each.topics[name] for each in views if name in each.topics]
            told = [localized(topic, each.name) for each in views if name in each.topics]
            wanted = _settled(localized(topic, view.name), list(zip(told, theirs, strict=True)))
            if mine is None or (mine.revision < wanted.revision):
                plan.topics.append(wanted)
    for name in groups:
        group = prevailing_group(name, views)
        held = view.groups.get(name)
        if group is not None:
            group = _settled(group, [(group, each.groups[name]) for each in views if name in each.groups])
            if held is None or held.revision < group.revision:
                plan.groups.append(group)
    for what in gone:
        kind, _, name = what.partition("/")
        revision = deletion(what, views)
        if revision and (view.deleted.get(what, 0) < revision or _has(view, kind, name, revision)):
            of_kind = {"topic": plan.gone_topics, "group": plan.gone_groups}.get(kind, plan.gone_namespaces)
            of_kind.append((name, revision))
    return plan


def _deletions(views: list[BrokerView], topics: Collection[str] | None, groups: Collection[str] | None) -> set[str]:
    """Return what may have been deleted of those to examine.  There may be a million deletions: a change does not look
    at all of them."""
    if topics is None or groups is None:
        return {what for each in views for what in each.deleted}
    found = {f"topic/{name}" for name in topics} | {f"group/{name}" for name in groups}
    return found.union(*(each.gone_namespaces for each in views))


def _settled(wanted: _D, pairs: list[tuple[_D, _D]]) -> _D:
    """Return the definition to tell, with the next revision if another definition has the same one.  That happens in
    stores that were alone before.  `pairs`: each broker's wanted and actual definition."""
    if any(should.revision == has.revision and should != has for should, has in pairs):
        return replace(wanted, revision=wanted.revision + 1)
    return wanted


def _has(view: BrokerView, kind: str, name: str, revision: int) -> bool:
    """True if a broker still has something that was deleted at a revision."""
    if kind == "topic":
        return name in view.topics and view.topics[name].revision <= revision
    if kind == "group":
        return name in view.groups and view.groups[name].revision <= revision
    return view.namespaces.get(name, revision + 1) <= revision
