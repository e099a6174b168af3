"""Runtime parameters of RabbitMQ, of virtual hosts, users and the whole: limits, metadata, topic permissions, values.

They are key-values, one for each virtual host, user or global name, which every gateway follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

import msgspec

from entrepot.domain.access.topic_permission import TopicPermission
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import KeyValues
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.key_values.watched_table import WatchedTable

VHOST_PREFIX: Final = "amqp-vhost/"
USER_PREFIX: Final = "amqp-user/"
GLOBAL_PREFIX: Final = "amqp-global/"
MAX_CONNECTIONS: Final = "max-connections"
MAX_CHANNELS: Final = "max-channels"
MAX_QUEUES: Final = "max-queues"
VHOST_LIMITS: Final = (MAX_CONNECTIONS, MAX_QUEUES)
USER_LIMITS: Final = (MAX_CONNECTIONS, MAX_CHANNELS)
MAX_TRIES: Final = 20
MAX_GLOBAL: Final = 1000
"""Largest number of global values, each of at most MAX_GLOBAL_BYTES."""
MAX_GLOBAL_BYTES: Final = 65_536
MAX_TOPIC_PERMISSIONS: Final = 500
"""Largest number of topic permissions of a user in all virtual hosts."""
_T = TypeVar("_T")
Limits = Mapping[str, int]


class VhostParameters(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a virtual host."""

    description: str = ""
    tags: tuple[str, ...] = ()
    limits: dict[str, int] = {}


class TopicPatterns(msgspec.Struct, frozen=True):
    """A topic permission as it is kept."""

    namespace: str
    exchange: str
    write: str
    read: str


class UserParameters(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of a user; also of one who comes by a token or a certificate."""

    limits: dict[str, int] = {}
    topics: tuple[TopicPatterns, ...] = ()


NO_VHOST: Final = VhostParameters()
NO_USER: Final = UserParameters()


class Parameters:
    """The parameters; `start` before the first question, `close` at the end."""

    def __init__(self, key_values: KeyValues) -> None:
        encode = msgspec.json.encode
        self._vhosts = WatchedTable(key_values, VHOST_PREFIX, msgspec.json.Decoder(VhostParameters).decode, encode)
        self._users = WatchedTable(key_values, USER_PREFIX, msgspec.json.Decoder(UserParameters).decode, encode)
        self._globals: WatchedTable[Any] = WatchedTable(key_values, GLOBAL_PREFIX, msgspec.json.decode, encode)
        self._permissions: dict[str, dict[tuple[str, str], TopicPermission]] = {}
        self._users.on_change.append(self._index)
        self.on_change: list[Callable[[], None]] = []
        """Callbacks for any change of topic permissions."""

    async def start(self) -> None:
        """Learn all, and follow it.  Raises what the store raises."""
        for table in (self._vhosts, self._users, self._globals):
            await table.start()

    def close(self) -> None:
        for table in (self._vhosts, self._users, self._globals):
            table.close()

    # -- virtual hosts -------------------------------------------------------------------------------------------

    def vhost(self, namespace: str) -> VhostParameters:
        return self._vhosts.get(namespace) or NO_VHOST

    async def describe(self, namespace: str, description: str, tags: tuple[str, ...]) -> None:
        """Set the metadata of a virtual host."""

        def change(before: VhostParameters | None) -> VhostParameters:
            return VhostParameters(description, tags, (before or NO_VHOST).limits)

        await _update(self._vhosts, namespace, change)

    async def limit_vhost(self, namespace: str, limit: str, value: int | None) -> None:
        """Set a limit of a virtual host, or remove it for None."""

        def change(before: VhostParameters | None) -> VhostParameters:
            known = before or NO_VHOST
            return msgspec.structs.replace(known, limits=_limits(known.limits, limit, value))

        await _update(self._vhosts, namespace, change)

    async def forget_vhost(self, namespace: str) -> None:
        """Forget a virtual host, with what users may do there."""
        await _update(self._vhosts, namespace, lambda before: None)
        for name, known in [*self._users.items()]:
            if any(each.namespace == namespace for each in known.topics):
                await self.permit(unquote(name), namespace, None)

    # -- users ---------------------------------------------------------------------------------------------------

    def user_limits(self, user: str) -> Limits:
        return (self._users.get(_key(user)) or NO_USER).limits

    def users(self) -> Iterator[tuple[str, UserParameters]]:
        """Every user that has any, by name."""
        return ((unquote(name), known) for name, known in sorted(self._users.items()))

    async def limit_user(self, user: str, limit: str, value: int | None) -> None:
        """Set a limit of a user, or remove it for None."""

        def change(before: UserParameters | None) -> UserParameters:
            known = before or NO_USER
            return msgspec.structs.replace(known, limits=_limits(known.limits, limit, value))

        await _update(self._users, _key(user), change)

    def topic_permission(self, user: str, namespace: str, exchange: str) -> TopicPermission | None:
        """The user's permission at an exchange, or None where every routing key is allowed."""
        of_user = self._permissions.get(user)
        return None if of_user is None else of_user.get((namespace, exchange))

    async def permit(self, user: str, namespace: str, wanted: TopicPatterns | None) -> bool:
        """Set a topic permission of a user, in place of that of its exchange; True if it is new.  None removes those of
        the virtual host.  Raises TOO_MANY_REQUESTS."""
        at = None if wanted is None else wanted.exchange
        is_new = True

        def change(before: UserParameters | None) -> UserParameters:
            nonlocal is_new
            known = before or NO_USER
            others = [e for e in known.topics if e.namespace != namespace or at not in (None, e.exchange)]
            is_new = len(others) == len(known.topics)
            if wanted is not None and len(others) >= MAX_TOPIC_PERMISSIONS:
                raise EntrepotError(Code.TOO_MANY_REQUESTS, f"a user has {MAX_TOPIC_PERMISSIONS} topic permissions")
            return msgspec.structs.replace(known, topics=(*others, *(() if wanted is None else (wanted,))))

        await _update(self._users, _key(user), change)
        return is_new

    async def forget_user(self, user: str) -> None:
        await _update(self._users, _key(user), lambda before: None)

    # -- global values -------------------------------------------------------------------------------------------

    def global_values(self) -> dict[str, Any]:
        """Every global value, by name."""
        return {unquote(name): value[0] for name, value in sorted(self._globals.items())}

    async def put_global(self, name: str, value: Any) -> bool:
        """Set a global value; True if it is new.  Raises BAD_REQUEST, TOO_MANY_REQUESTS."""
        is_new = self._globals.get(_key(name)) is None
        if len(msgspec.json.encode(value)) > MAX_GLOBAL_BYTES:
            raise EntrepotError(Code.BAD_REQUEST, f"value: at most {MAX_GLOBAL_BYTES} bytes as JSON")
        if is_new and len(self._globals) >= MAX_GLOBAL:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, f"there are {MAX_GLOBAL} global parameters already")
        await _update(self._globals, _key(name), lambda before: [value])
        return is_new

    async def delete_global(self, name: str) -> bool:
        """Delete a global value; True if there was one."""
        is_there = self._globals.get(_key(name)) is not None
        await _update(self._globals, _key(name), lambda before: None)
        return is_there

    def _index(self, name: str, before: UserParameters | None, now: UserParameters | None) -> None:
        user = unquote(name)
        self._permissions.pop(user, None)
        if now is not None and now.topics:
            patterns = {(e.namespace, e.exchange): TopicPermission(e.write, e.read) for e in now.topics}
            self._permissions[user] = patterns
        for changed in self.on_change:
            changed()


def _key(name: str) -> str:
    return quote(name, safe="")


def _limits(limits: Limits, limit: str, value: int | None) -> dict[str, int]:
    others = {name: each for name, each in limits.items() if name != limit}
    return others if value is None else {**others, limit: value}


async def _update(table: WatchedTable[_T], name: str, change: Callable[[_T | None], _T | None]) -> None:
    """Replace a value by what `change` makes of it, also where others write at once.  Raises UNAVAILABLE."""
    for _ in range(MAX_TRIES):
        before = table.get(name)
        now = change(before)
        if now == before:
            return
        if await if_unchanged(table.write([table.change(name, now, table.version(name))])) is not None:
            return
        await table.look(name)
    raise EntrepotError(Code.UNAVAILABLE, f"{name[:80]!r} keeps being changed by others")
