"""A subscription as the API writes it (CloudEvents Subscriptions draft, section 3.2): read, checked, and shown again.

Secrets are never shown: `***` is in their place. A PUT with `***` there, or without the credential, keeps the stored
secret. For another origin of the sink or of the token endpoint, the secret must be given again, else it would leak.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from yarl import URL

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE, check_topic_name, qualified, split_name
from entrepot.domain.timestamp import to_epoch_ms, to_rfc3339
from entrepot.domain.url import authority_of, fault_of_url
from entrepot.gateway.events.subscriptions.record import (
    BINARY,
    LATEST,
    Credential,
    StateRecord,
    Subscription,
    SubscriptionRecord,
)

HIDDEN: Final = "***"
MAX_URL: Final = 2048
MAX_HEADERS: Final = 32
MAX_HEADER_VALUE: Final = 4096
MAX_TYPES: Final = 64
SECRET_PREFIX: Final = "whsec_"
MIN_SECRET_BYTES: Final = 24
MAX_SECRET_BYTES: Final = 64
MAX_START: Final = 64

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_NOT_TO_SET: Final = frozenset(
    {
        "host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade", "te", "trailer",
        "expect", "keep-alive", "proxy-authorization", "proxy-connection", "content-encoding",
    }
)  # fmt: skip
_NOT_BEGINNINGS: Final = ("ce-", "webhook-")

_NOT_KEPT: Final = (
    f"{HIDDEN!r} stands for what is kept, which goes to the sink and token endpoint that it was for alone"
)

Text = Annotated[str, Field(min_length=1, max_length=4096)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ConfigModel(_Model):
    """Delivery of its events."""

    start: Annotated[str, Field(max_length=MAX_START)] = LATEST
    """`latest`, `earliest`, an RFC 3339 time or an offset in every queue of the topic."""
    mode: Literal["binary", "structured", "batched"] = BINARY
    batchsize: Annotated[int, Field(ge=1, le=100)] = 100
    ordered: bool = False
    """True for delivery of the events of one `partitionkey` one after the other, in their order."""
    maxattempts: Annotated[int, Field(ge=1, le=1000)] = 16
    timeoutseconds: Annotated[float, Field(ge=0.1, le=300, strict=False)] = 30
    initialbackoffseconds: Annotated[float, Field(ge=0.01, le=3600, strict=False)] = 1
    maxbackoffseconds: Annotated[float, Field(ge=0.01, le=86_400, strict=False)] = 600
    maxageseconds: Annotated[int, Field(ge=1, le=30 * 86_400)] | None = None
    """Age in seconds from which on an event becomes a dead letter instead of being sent."""
    handshake: Literal["required", "optional", "off"] | None = None
    ratelimit: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Requests per minute, over all gateways."""
    signingsecret: Annotated[str, Field(max_length=256)] | None = None
    """`whsec_` and 24 to 64 bytes in Base64 (Standard Webhooks)."""


class ProtocolSettingsModel(_Model):
    """HTTP settings of the requests."""

    method: Literal["POST", "PUT"] = "POST"
    headers: Annotated[dict[str, str], Field(max_length=MAX_HEADERS)] = {}


class CredentialModel(_Model):
    """The credential for the sink."""

    credentialtype: Literal["PLAIN", "ACCESSTOKEN", "REFRESHTOKEN", "OAUTH2"]
    identifier: Text | None = None
    secret: Text | None = None
    accesstoken: Text | None = None
    accesstokentype: Annotated[str, Field(pattern=r"^[A-Za-z]{1,32}$")] | None = None
    accesstokenexpiresutc: Annotated[str, Field(max_length=64)] | None = None
    refreshtoken: Text | None = None
    tokenendpoint: Annotated[str, Field(max_length=MAX_URL)] | None = None
    scope: Annotated[str, Field(max_length=1024)] | None = None


_NEEDED: Final = {
    "PLAIN": ("identifier", "secret"),
    "ACCESSTOKEN": ("accesstoken",),
    "REFRESHTOKEN": ("refreshtoken", "tokenendpoint"),
    "OAUTH2": ("identifier", "secret", "tokenendpoint"),
}


class SubscriptionModel(_Model):
    """The body of a POST or a PUT."""

    id: str | None = None
    """The id in the path of a PUT; ignored in a POST, so that a shown definition may be posted."""
    source: Annotated[str, Field(min_length=1, max_length=256)]
    """The topic: its name, or `/<namespace>/<topic>`."""
    types: Annotated[list[Text], Field(max_length=MAX_TYPES)] = []
    config: ConfigModel = Field(default_factory=ConfigModel)
    filters: list[dict[str, Any]] = []
    sink: Annotated[str, Field(min_length=1, max_length=MAX_URL)]
    sinkcredential: CredentialModel | None = None
    protocol: Literal["HTTP"]
    protocolsettings: ProtocolSettingsModel = Field(default_factory=ProtocolSettingsModel)
    status: Any = None
    """Shown by the server and ignored in requests: a shown definition may be written back."""


def record_of(
    model: SubscriptionModel,
    namespace: str,
    subscription_id: str,
    now_ms: int,
    default_handshake: str,
    before: SubscriptionRecord | None = None,
) -> SubscriptionRecord:
    """Return the definition in a request body. Raises BAD_REQUEST."""
    config, protocol = model.config, model.protocolsettings
    if before is not None and model.id is not None and model.id != subscription_id:
        raise _bad("id", "is not that of the path")
    if config.maxbackoffseconds < config.initialbackoffseconds:
        raise _bad("config.maxbackoffseconds", "is less than initialbackoffseconds")
    check_url(model.sink, "sink")
    shown_before = before if before is not None and _is_same_place(model.sink, before.sink) else None
    return SubscriptionRecord(
        id=subscription_id,
        namespace=namespace,
        topic=topic_of(model.source, namespace),
        sink=model.sink,
        created_ms=now_ms if before is None else before.created_ms,
        types=tuple(model.types),
        filters=model.filters,
        mode=config.mode,
        batch_size=config.batchsize,
        is_ordered=config.ordered,
        max_attempts=config.maxattempts,
        timeout_seconds=config.timeoutseconds,
        initial_backoff_ms=round(config.initialbackoffseconds * 1000),
        max_backoff_ms=round(config.maxbackoffseconds * 1000),
        max_age_seconds=config.maxageseconds or 0,
        handshake=config.handshake or default_handshake,
        rate_per_minute=config.ratelimit or 0,
        method=protocol.method,
        headers=_headers(protocol.headers, {} if shown_before is None else shown_before.headers),
        credential=_credential(
            model, None if before is None else before.credential, is_same_sink=shown_before is not None
        ),
        signing_secret=_secret(config, "" if before is None else before.signing_secret),
        start=config.start,
        begins={} if before is None else before.begins,
        is_catching_up=False if before is None else before.is_catching_up,
        updated_ms=now_ms,
    )


def topic_of(source: str, namespace: str) -> str:
    """Return the full name of the topic in `source`. Raises BAD_REQUEST, ILLEGAL_TOPIC."""
    plain = source
    if source.startswith("/"):
        told, _, plain = source[1:].partition("/")
        if told != namespace:
            raise _bad("source", f"is /{namespace}/<topic>, or the name of a topic, not {source[:80]!r}")
    check_topic_name(plain)
    return qualified(namespace, plain)


def check_url(text: str, where: str) -> None:
    """Raise BAD_REQUEST unless requests can be sent to a URL; the address policy is applied elsewhere."""
    fault = fault_of_url(text, ("https", "http"))
    if fault is not None:
        raise _bad(where, fault)
    authority = authority_of(text)
    if "@" in authority:
        raise _bad(where, "must not hold a user or password: there is sinkcredential")
    if "#" in text:
        raise _bad(where, "must not have a fragment")
    if not authority.isascii():
        raise _bad(where, "its host must be ASCII: write an international name in its form with xn--")
    try:
        url = URL(text)
    except ValueError:
        raise _bad(where, "its host is no name and no address") from None
    if not url.host:
        raise _bad(where, "the URL names no host")


def _headers(given: dict[str, str], before: dict[str, str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    known = {name.lower(): value for name, value in before.items()}
    seen: set[str] = set()
    for name, value in given.items():
        lowered = name.lower()
        where = f"protocolsettings.headers.{name[:80]}"
        if not _TOKEN.fullmatch(name) or lowered in seen:
            raise _bad(where, "is no name of a header, or there twice")
        if lowered in _NOT_TO_SET or lowered.startswith(_NOT_BEGINNINGS):
            raise _bad(where, "is a header that deliveries set themselves")
        if not (value.isascii() and value.isprintable()) or len(value) > MAX_HEADER_VALUE:
            raise _bad(where, f"must be up to {MAX_HEADER_VALUE} printable ASCII characters")
        seen.add(lowered)
        if value == HIDDEN and lowered not in known:
            raise _bad(where, f"must be said: {_NOT_KEPT}")
        kept[name] = known[lowered] if value == HIDDEN else value
    return kept


def _is_same_place(url: str, other: str) -> bool:
    """True if both URLs have the same origin, so a secret shown to one may be shown to the other."""
    return URL(url).origin() == URL(other).origin()


def _credential(model: SubscriptionModel, before: Credential | None, *, is_same_sink: bool) -> Credential | None:
    given = model.sinkcredential
    if given is None:
        if "sinkcredential" in model.model_fields_set or before is None:
            return None
        if not is_same_sink:
            raise _bad("sinkcredential", f"must be said, or null: {_NOT_KEPT}")
        return before
    fields = {name: value for name, value in given.model_dump().items() if value is not None}
    endpoint = fields.get("tokenendpoint", "")
    if endpoint:
        check_url(endpoint, "sinkcredential.tokenendpoint")
    is_known = before is not None and before.credentialtype == given.credentialtype and is_same_sink
    if before is not None and before.tokenendpoint and endpoint:
        is_known = is_known and _is_same_place(endpoint, before.tokenendpoint)
    for name, value in fields.items():
        if value == HIDDEN:
            if not is_known or not getattr(before, name):
                raise _bad(f"sinkcredential.{name}", f"must be said: {_NOT_KEPT}")
            fields[name] = getattr(before, name)
        if not fields[name].isprintable():
            raise _bad(f"sinkcredential.{name}", "must be printable")
    for name in _NEEDED[given.credentialtype]:
        if not fields.get(name):
            raise _bad(f"sinkcredential.{name}", f"is needed by {given.credentialtype}")
    if fields.get("accesstokenexpiresutc") and to_epoch_ms(fields["accesstokenexpiresutc"]) is None:
        raise _bad("sinkcredential.accesstokenexpiresutc", "must be an RFC 3339 time")
    return Credential(**fields)


def _secret(config: ConfigModel, before: str) -> str:
    given = config.signingsecret
    if given is None:
        return "" if "signingsecret" in config.model_fields_set else before
    if given == HIDDEN and before:
        return before
    try:
        if not given.startswith(SECRET_PREFIX):
            raise ValueError
        size = len(base64.b64decode(given[len(SECRET_PREFIX) :], validate=True))
        if not MIN_SECRET_BYTES <= size <= MAX_SECRET_BYTES:
            raise ValueError
    except (ValueError, binascii.Error):
        raise _bad(
            "config.signingsecret",
            f"must be {SECRET_PREFIX} and {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes in Base64",
        ) from None
    return given


def _bad(where: str, what: str) -> EntrepotError:
    return EntrepotError(Code.BAD_REQUEST, f"{where}: {what}")


# -- shown -----------------------------------------------------------------------------------------------------------


def shape(subscription: Subscription, state: StateRecord | None) -> dict[str, Any]:
    """The subscription as the API shows it: without its secrets."""
    record = subscription.record
    plain = split_name(record.topic)[1]
    shown: dict[str, Any] = {
        "id": record.id,
        "source": f"/{record.namespace or DEFAULT_NAMESPACE}/{plain}",
        "types": list(record.types),
        "config": _config_shape(record),
        "filters": record.filters,
        "sink": record.sink,
        "protocol": "HTTP",
        "protocolsettings": {"method": record.method, "headers": dict.fromkeys(record.headers, HIDDEN)},
    }
    if record.credential is not None:
        shown["sinkcredential"] = _credential_shape(record.credential)
    shown["status"] = _status_shape(record, state or StateRecord())
    return shown


def _config_shape(record: SubscriptionRecord) -> dict[str, Any]:
    return {
        "start": record.start,
        "mode": record.mode,
        "batchsize": record.batch_size,
        "ordered": record.is_ordered,
        "maxattempts": record.max_attempts,
        "timeoutseconds": record.timeout_seconds,
        "initialbackoffseconds": record.initial_backoff_ms / 1000,
        "maxbackoffseconds": record.max_backoff_ms / 1000,
        "maxageseconds": record.max_age_seconds or None,
        "handshake": record.handshake,
        "ratelimit": record.rate_per_minute or None,
        "signingsecret": HIDDEN if record.signing_secret else None,
    }


def _credential_shape(credential: Credential) -> dict[str, Any]:
    shown: dict[str, Any] = {"credentialtype": credential.credentialtype}
    for name in ("tokenendpoint", "scope", "accesstokenexpiresutc"):
        if value := getattr(credential, name):
            shown[name] = value
    if credential.accesstoken:
        shown["accesstokentype"] = credential.accesstokentype
    for name in ("identifier", "secret", "accesstoken", "refreshtoken"):
        if getattr(credential, name):
            shown[name] = HIDDEN
    return shown


def _status_shape(record: SubscriptionRecord, state: StateRecord) -> dict[str, Any]:
    return {
        "state": state_of(record, state),
        "reason": state.suspended or None,
        "consent": state.consent or None,
        "allowedrate": (state.allowed_rate or "*") if state.consent == "granted" else None,
        "catchingup": record.is_catching_up,
        "created": to_rfc3339(record.created_ms),
        "updated": to_rfc3339(record.updated_ms or record.created_ms),
    }


def state_of(record: SubscriptionRecord, state: StateRecord) -> str:
    """`active`, `unverified` (nothing is sent before the receiver agrees) or `suspended`."""
    if state.suspended:
        return "suspended"
    return "unverified" if record.handshake == "required" and state.consent != "granted" else "active"
