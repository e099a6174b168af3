"""RocketMqAccess: authentication and rights of RocketMQ calls, by the one decision point (`gateway.security`).

A client sends a user's name and a signature with every call, or a certificate, or nothing. The signature is made with
the user's signing secret, which the SDKs never send.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from typing import Any, Final

from entrepot.domain.access.model import Action, Principal, ResourceType, access_name, whole_topic
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE, split_name
from entrepot.gateway.rocketmq.caller import (
    AUTHORIZATION,
    CLIENT_ID,
    DATE_TIME,
    MAX_CLIENT_ID_LENGTH,
    Caller,
    header,
)
from entrepot.gateway.rocketmq.grpc.call import Call
from entrepot.gateway.security.credentials import Credentials, identity_of
from entrepot.gateway.security.security import PrincipalChange, Security
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import WireError
from entrepot.protocols.rocketmq.headers import parse_authorization, signature, signed_at_ms
from entrepot.protocols.rocketmq.published import PROTOCOL

MAX_KNOWN: Final = 20_000
"""Principals that are remembered; the oldest makes room."""


class RocketMqAccess:
    """Identity and rights of calls."""

    def __init__(self, security: Security, clock: Clock, tolerance_seconds: float) -> None:
        self._security, self._clock = security, clock
        self._tolerance_ms = int(tolerance_seconds * 1000)
        self._known: OrderedDict[tuple[str, str, str], Principal] = OrderedDict()
        self.watch = security.watch_principals
        self.watch(self._forget)

    async def caller(self, call: Call) -> Caller:
        """Return the caller, and admit its connection. Raises CLIENT_ID_REQUIRED, UNAUTHORIZED, FORBIDDEN (a disabled
        user), UNAVAILABLE."""
        client_id = header(call.fields, CLIENT_ID)
        if not client_id or len(client_id) > MAX_CLIENT_ID_LENGTH or not client_id.isprintable():
            raise WireError(v2.CLIENT_ID_REQUIRED, f"{CLIENT_ID.decode()} is missing, or too long")
        source, remaining = call.source.host, call.remaining_seconds()
        remaining_ms = None if remaining is None else int(remaining * 1000)
        principal = self._security.anonymous_at_once(source)
        if principal is None:
            principal = await self._recognised(call, client_id, source)
        call.admitted()
        return Caller(client_id, principal, source, remaining_ms)

    async def _recognised(self, call: Call, client_id: str, source: str) -> Principal:
        headers = call.fields
        shown = parse_authorization(header(headers, AUTHORIZATION))
        certificate = identity_of(call.source)
        name = "" if shown is None else shown.access_key
        if certificate is None and shown is not None and name:
            date_time = header(headers, DATE_TIME)
            credentials = Credentials(PROTOCOL, source, name, client_id=client_id)
            said = shown.signature.upper()
            self._security.check_signature(
                credentials, lambda secret: hmac.compare_digest(signature(secret, date_time), said)
            )
            if self._tolerance_ms and not self._is_fresh(date_time):
                refusal = EntrepotError(Code.UNAUTHORIZED, "the signature is too old, or its date cannot be read")
                self._security.login_refused(credentials, refusal)
                raise refusal
            return self._remembered((name, source, client_id), lambda: self._security.signed(credentials))
        known = self._known.get(("", source, client_id))
        if known is not None and certificate is None and self._security.is_current:
            return known
        is_tls = call.source.is_tls
        credentials = Credentials(PROTOCOL, source, client_id=client_id, certificate=certificate, is_tls=is_tls)
        principal = await self._security.authenticate(credentials)
        key = "" if certificate is None else f"certificate {principal.name}"
        return self._remembered((key, source, client_id), lambda: principal)

    def _remembered(self, key: tuple[str, str, str], make: Any) -> Principal:
        """Return the same principal as long as nothing changes: decisions are remembered by it."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = make()
            while len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return known

    def _is_fresh(self, date_time: str) -> bool:
        signed_ms = signed_at_ms(date_time)
        return signed_ms is not None and abs(signed_ms - self._clock.now_ms()) <= self._tolerance_ms

    def _forget(self, change: PrincipalChange) -> None:
        self._known.clear()

    # -- rights ------------------------------------------------------------------------------------------------------

    def check_publish(self, caller: Caller, topic: str, sub_topic: str) -> None:
        """Raise FORBIDDEN unless the caller may send a message with that full name."""
        if self._security.is_open:
            return
        namespace, plain = split_name(topic)
        self._check(caller, Action.PUB, ResourceType.TOPIC, access_name(topic))
        if sub_topic and sub_topic != plain:
            name = sub_topic if namespace == DEFAULT_NAMESPACE else access_name(f"{namespace}/{sub_topic}")
            self._check(caller, Action.PUB, ResourceType.TOPIC, name)

    def may_publish(self, caller: Caller, topic: str, sub_topic: str) -> bool:
        """True if `check_publish` would pass."""
        try:
            self.check_publish(caller, topic, sub_topic)
        except EntrepotError:
            return False
        return True

    def check_consume(self, caller: Caller, topic: str, group: str) -> None:
        """Raise FORBIDDEN unless the caller may receive from a topic in a group, and settle."""
        if not self._security.is_open:
            self._check(caller, Action.SUB, ResourceType.TOPIC, whole_topic(topic))
            self._check(caller, Action.SUB, ResourceType.GROUP, access_name(group))

    def check_read(self, caller: Caller, topic: str) -> None:
        """Raise FORBIDDEN unless the caller may read a topic without a group."""
        if not self._security.is_open:
            self._check(caller, Action.SUB, ResourceType.TOPIC, whole_topic(topic))

    def check_group(self, caller: Caller, group: str) -> None:
        """Raise FORBIDDEN unless the caller may be a member of a group."""
        if not self._security.is_open:
            self._check(caller, Action.SUB, ResourceType.GROUP, access_name(group))

    def check_move(self, caller: Caller, topic: str) -> None:
        """Raise FORBIDDEN unless the caller may recall published messages."""
        if not self._security.is_open:
            self._check(caller, Action.PUB, ResourceType.TOPIC, whole_topic(topic))

    def check_know(self, caller: Caller, topic: str) -> None:
        """Raise FORBIDDEN unless the caller may send to a topic, or receive from it."""
        if self._security.is_open:
            return
        for action, name in ((Action.PUB, access_name(topic)), (Action.SUB, whole_topic(topic))):
            if self._security.why(caller.principal, action, ResourceType.TOPIC, name).is_allowed:
                return
        self._check(caller, Action.PUB, ResourceType.TOPIC, access_name(topic))

    def _check(self, caller: Caller, action: Action, kind: ResourceType, name: str) -> None:
        self._security.check(caller.principal, action, kind, name, PROTOCOL)
