"""A subscription as the API takes and shows it (CloudEvents Subscriptions draft, section 3.2).

Secrets are never shown: `***` is in their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from entrepot.domain.names import DEFAULT_NAMESPACE, split_name
from entrepot.gateway.events.subscriptions.record import BINARY, LATEST, StateRecord
from entrepot.gateway.operations.row.shapes import Body, Like, Part, Shown, Time, one_of, shown_as
from entrepot.gateway.operations.row.times import time_text

if TYPE_CHECKING:
    from entrepot.gateway.events.subscriptions.record import Credential, Subscription, SubscriptionRecord

HIDDEN: Final = "***"
MAX_URL: Final = 2048
MAX_HEADERS: Final = 32
MAX_TYPES: Final = 64
MAX_START: Final = 64
_MODES: Final = ("binary", "structured", "batched")
_HANDSHAKES: Final = ("required", "optional", "off")
_CREDENTIALS: Final = ("PLAIN", "ACCESSTOKEN", "REFRESHTOKEN", "OAUTH2")
ACTIVE: Final = "active"
UNVERIFIED: Final = "unverified"
SUSPENDED: Final = "suspended"
_STATES: Final = (ACTIVE, UNVERIFIED, SUSPENDED)
_TIME: Final = "2026-12-01T08:00:00.000Z"
_Text = Annotated[str, Meta(min_length=1, max_length=4096)]
_Url = Annotated[str, Meta(max_length=MAX_URL)]
_Timeout = Annotated[float, Meta(ge=0.1, le=300)]
_FirstBackOff = Annotated[float, Meta(ge=0.01, le=3600)]
_BackOff = Annotated[float, Meta(ge=0.01, le=86_400)]


# -- taken -----------------------------------------------------------------------------------------------------------


_TlsName = Annotated[str, Meta(min_length=1, max_length=64)]


class ConfigBody(Body, frozen=True):
    """Delivery of its events."""

    start: Annotated[str, Meta(max_length=MAX_START)] = LATEST
    """`latest`, `earliest`, an RFC 3339 time or an offset in every queue of the topic."""
    mode: Literal["binary", "structured", "batched"] = BINARY
    batchsize: Annotated[int, Meta(ge=1, le=100)] = 100
    ordered: bool = False
    """True for delivery of the events of one `partitionkey` one after the other, in their order."""
    maxattempts: Annotated[int, Meta(ge=1, le=1000)] = 16
    timeoutseconds: Annotated[_Timeout | str, Like(_Timeout)] = 30
    initialbackoffseconds: Annotated[_FirstBackOff | str, Like(_FirstBackOff)] = 1
    maxbackoffseconds: Annotated[_BackOff | str, Like(_BackOff)] = 600
    """Seconds as a text count as well."""
    maxageseconds: Annotated[int, Meta(ge=1, le=30 * 86_400)] | None = None
    """Age in seconds from which on an event becomes a dead letter instead of being sent."""
    handshake: Literal["required", "optional", "off"] | None = None
    ratelimit: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    """Requests per minute, over all gateways."""
    signingsecret: Annotated[str, Meta(max_length=256)] | UnsetType | None = UNSET
    """`whsec_` and 24 to 64 bytes in Base64 (Standard Webhooks).  Without it a PUT keeps that of before."""
    tls: _TlsName | None = None
    """Name in the setting `webhooks.tls`: the authorities and the client certificate for the sink."""
    tokentls: _TlsName | None = None
    """The same for `sinkcredential.tokenendpoint`."""


SECONDS: Final = {
    "timeoutseconds": _Timeout,
    "initialbackoffseconds": _FirstBackOff,
    "maxbackoffseconds": _BackOff,
}
"""Members of the configuration that may be texts."""


class ProtocolSettingsBody(Body, frozen=True):
    """HTTP settings of the requests."""

    method: Literal["POST", "PUT"] = "POST"
    headers: Annotated[dict[str, str], Meta(max_length=MAX_HEADERS)] = msgspec.field(default_factory=dict)


class CredentialBody(Body, frozen=True):
    """The credential for the sink."""

    credentialtype: Literal["PLAIN", "ACCESSTOKEN", "REFRESHTOKEN", "OAUTH2"]
    identifier: _Text | None = None
    secret: _Text | None = None
    accesstoken: _Text | None = None
    accesstokentype: Annotated[str, Meta(pattern=r"^[A-Za-z]{1,32}\Z")] | None = None
    accesstokenexpiresutc: Annotated[str, Meta(max_length=64)] | None = None
    refreshtoken: _Text | None = None
    tokenendpoint: _Url | None = None
    scope: Annotated[str, Meta(max_length=1024)] | None = None


class SubscriptionBody(Body, frozen=True, kw_only=True):
    """The body of a POST or a PUT."""

    id: str | None = None
    """The id in the path of a PUT; ignored in a POST, so that a shown definition may be posted."""
    source: Annotated[str, Meta(min_length=1, max_length=256)]
    """The topic: its name, or `/<namespace>/<topic>`."""
    types: Annotated[list[_Text], Meta(max_length=MAX_TYPES)] = msgspec.field(default_factory=list)
    config: ConfigBody | UnsetType = UNSET
    filters: list[dict[str, Any]] = msgspec.field(default_factory=list)
    sink: Annotated[str, Meta(min_length=1, max_length=MAX_URL)]
    sinkcredential: CredentialBody | UnsetType | None = UNSET
    """Without it a PUT keeps that of before."""
    protocol: Literal["HTTP"]
    protocolsettings: ProtocolSettingsBody | UnsetType = UNSET
    status: Any | UnsetType = UNSET
    """Shown by the server and ignored in requests: a shown definition may be written back."""


TO_SUBSCRIBE: Final = {
    "source": "factory",
    "types": ["reading"],
    "filters": [{"prefix": {"subject": "line1/"}}, {"sql": "celsius > 30"}],
    "sink": "https://receiver.example/events",
    "protocol": "HTTP",
    "protocolsettings": {"headers": {"x-api-key": "secret"}},
    "config": {"mode": "structured", "ordered": True, "maxattempts": 10},
}
"""A body, for the document."""


# -- shown -----------------------------------------------------------------------------------------------------------


class ConfigShown(Part, frozen=True):
    start: str
    mode: Annotated[str, one_of(_MODES)]
    batchsize: int
    ordered: bool
    maxattempts: int
    timeoutseconds: float
    initialbackoffseconds: float
    maxbackoffseconds: float
    maxageseconds: int | None
    handshake: Annotated[str, one_of(_HANDSHAKES)]
    ratelimit: int | None
    signingsecret: str | None
    tls: str | None
    tokentls: str | None


class CredentialShown(Part, frozen=True):
    credentialtype: Annotated[str, one_of(_CREDENTIALS)]
    tokenendpoint: str | UnsetType = UNSET
    scope: str | UnsetType = UNSET
    accesstokenexpiresutc: str | UnsetType = UNSET
    accesstokentype: str | UnsetType = UNSET
    identifier: str | UnsetType = UNSET
    secret: str | UnsetType = UNSET
    accesstoken: str | UnsetType = UNSET
    refreshtoken: str | UnsetType = UNSET


class ProtocolSettingsShown(Part, frozen=True):
    method: Annotated[str, one_of(("POST", "PUT"))]
    headers: dict[str, str]


class StatusShown(Part, frozen=True):
    state: Annotated[str, one_of(_STATES)]
    reason: str | None
    consent: Annotated[str, one_of(("granted", "denied"))] | None
    allowedrate: int | str | None
    catchingup: bool
    created: Time
    updated: Time
    lastanswer: str | UnsetType | None = UNSET
    circuitopen: bool | UnsetType = UNSET


class SubscriptionShown(Shown, frozen=True, kw_only=True):
    """A subscription (CloudEvents Subscriptions API, draft), without its secrets"""

    id: str
    source: str
    types: list[str]
    config: ConfigShown
    filters: list[Any]
    sink: str
    sinkcredential: CredentialShown | UnsetType = UNSET
    protocol: Annotated[str, one_of(("HTTP",))]
    protocolsettings: ProtocolSettingsShown
    status: StatusShown


shown_as(
    SubscriptionShown(
        id="3f2a9c01d4e5b677",
        source="/default/factory",
        types=["reading"],
        config=ConfigShown(
            LATEST, BINARY, 100, False, 16, 30.0, 1.0, 600.0, 86_400, "required", 6000, HIDDEN, "factory", None
        ),
        filters=[{"prefix": {"subject": "line1/"}}],
        sink="https://receiver.example/events",
        sinkcredential=CredentialShown(
            "PLAIN", "https://login.example/token", "events", "2026-12-01T08:00:00Z", "Bearer", *[HIDDEN] * 4
        ),
        protocol="HTTP",
        protocolsettings=ProtocolSettingsShown("POST", {"x-api-key": HIDDEN}),
        status=StatusShown(ACTIVE, "the sink is gone", "granted", 6000, False, _TIME, _TIME, "204", False),
    )
)


def fields_of(subscription: Subscription, state: StateRecord) -> dict[str, Any]:
    """Return the fields of a shown subscription, by name."""
    record = subscription.record
    plain = split_name(record.topic)[1]
    credential = record.credential
    return {
        "id": record.id,
        "source": f"/{record.namespace or DEFAULT_NAMESPACE}/{plain}",
        "types": list(record.types),
        "config": _config(record),
        "filters": record.filters,
        "sink": record.sink,
        "sinkcredential": UNSET if credential is None else _credential(credential),
        "protocol": "HTTP",
        "protocolsettings": ProtocolSettingsShown(record.method, dict.fromkeys(record.headers, HIDDEN)),
        "status": _status(record, state),
    }


def _config(record: SubscriptionRecord) -> ConfigShown:
    return ConfigShown(
        record.start,
        record.mode,
        record.batch_size,
        record.is_ordered,
        record.max_attempts,
        record.timeout_seconds,
        record.initial_backoff_ms / 1000,
        record.max_backoff_ms / 1000,
        record.max_age_seconds or None,
        record.handshake,
        record.rate_per_minute or None,
        HIDDEN if record.signing_secret else None,
        record.tls or None,
        record.token_tls or None,
    )


def _credential(credential: Credential) -> CredentialShown:
    return CredentialShown(
        credential.credentialtype,
        credential.tokenendpoint or UNSET,
        credential.scope or UNSET,
        credential.accesstokenexpiresutc or UNSET,
        credential.accesstokentype if credential.accesstoken else UNSET,
        *(HIDDEN if value else UNSET for value in (credential.identifier, credential.secret)),
        *(HIDDEN if value else UNSET for value in (credential.accesstoken, credential.refreshtoken)),
    )


def _status(record: SubscriptionRecord, state: StateRecord) -> StatusShown:
    return StatusShown(
        state_of(record, state),
        state.suspended or None,
        state.consent or None,
        (state.allowed_rate or "*") if state.consent == "granted" else None,
        record.is_catching_up,
        time_text(record.created_ms),
        time_text(record.updated_ms or record.created_ms),
    )


def state_of(record: SubscriptionRecord, state: StateRecord) -> str:
    """Return `active`, `unverified` (nothing is sent before the receiver agrees) or `suspended`."""
    if state.suspended:
        return SUSPENDED
    return UNVERIFIED if record.handshake == "required" and state.consent != "granted" else ACTIVE
