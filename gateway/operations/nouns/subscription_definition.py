"""The definition in the body of a subscription: checked, and kept as a record.

Secrets are shown as `***`.  A PUT with `***` there, or without the credential, keeps the stored secret.  For another
origin of the sink or of the token endpoint, the secret must be given again, else it would leak.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET
from yarl import URL

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import check_topic_name, qualified
from entrepot.domain.timestamp import to_epoch_ms
from entrepot.domain.url import authority_of, fault_of_url
from entrepot.gateway.events.subscriptions.record import Credential, SubscriptionRecord
from entrepot.gateway.operations.nouns.subscription_shapes import HIDDEN, SECONDS, ConfigBody, ProtocolSettingsBody
from entrepot.gateway.operations.row.reading import number, sentence

if TYPE_CHECKING:
    from entrepot.gateway.operations.nouns.subscription_shapes import SubscriptionBody

MAX_HEADER_VALUE: Final = 4096
SECRET_PREFIX: Final = "whsec_"
MIN_SECRET_BYTES: Final = 24
MAX_SECRET_BYTES: Final = 64

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

_NEEDED: Final = {
    "PLAIN": ("identifier", "secret"),
    "ACCESSTOKEN": ("accesstoken",),
    "REFRESHTOKEN": ("refreshtoken", "tokenendpoint"),
    "OAUTH2": ("identifier", "secret", "tokenendpoint"),
}


def _seconds(name: str, given: float | str) -> float:
    """Return seconds of the configuration, which may be a text. Raises BAD_REQUEST."""
    try:
        return float(msgspec.convert(number(given), SECONDS[name]) if isinstance(given, str) else given)
    except msgspec.ValidationError as error:
        raise _bad(f"config.{name}", sentence(error, SECONDS[name])) from None
    except ValueError as error:
        raise _bad(f"config.{name}", str(error)) from None


def record_of(
    body: SubscriptionBody,
    namespace: str,
    subscription_id: str,
    now_ms: int,
    default_handshake: str,
    before: SubscriptionRecord | None = None,
    owner: str = "",
) -> SubscriptionRecord:
    """Return the definition in a request body; `owner`: of one that is new. Raises BAD_REQUEST."""
    config = ConfigBody() if body.config is UNSET else body.config
    protocol = ProtocolSettingsBody() if body.protocolsettings is UNSET else body.protocolsettings
    if before is not None and body.id is not None and body.id != subscription_id:
        raise _bad("id", "is not that of the path")
    first_back_off = _seconds("initialbackoffseconds", config.initialbackoffseconds)
    longest_back_off = _longest_back_off(config, first_back_off)
    check_url(body.sink, "sink")
    known = None if before is None else before.credential
    shown_before = before if before is not None and _is_same_place(body.sink, before.sink) else None
    return SubscriptionRecord(
        id=subscription_id,
        namespace=namespace,
        topic=topic_of(body.source, namespace),
        sink=body.sink,
        created_ms=now_ms if before is None else before.created_ms,
        types=tuple(body.types),
        filters=body.filters,
        mode=config.mode,
        batch_size=config.batchsize,
        is_ordered=config.ordered,
        max_attempts=config.maxattempts,
        timeout_seconds=_seconds("timeoutseconds", config.timeoutseconds),
        initial_backoff_ms=round(first_back_off * 1000),
        max_backoff_ms=round(longest_back_off * 1000),
        max_age_seconds=config.maxageseconds or 0,
        handshake=config.handshake or default_handshake,
        rate_per_minute=config.ratelimit or 0,
        method=protocol.method,
        headers=_headers(protocol.headers, {} if shown_before is None else shown_before.headers),
        credential=_credential(body, known, is_same_sink=shown_before is not None),
        signing_secret=_secret(config, "" if before is None else before.signing_secret),
        start=config.start,
        begins={} if before is None else before.begins,
        is_catching_up=False if before is None else before.is_catching_up,
        updated_ms=now_ms,
        owner=owner if before is None else before.owner,
        tls=config.tls or "",
        token_tls=config.tokentls or "",
    )


def _longest_back_off(config: ConfigBody, first: float) -> float:
    longest = _seconds("maxbackoffseconds", config.maxbackoffseconds)
    if longest < first:
        raise _bad("config.maxbackoffseconds", "is less than initialbackoffseconds")
    return longest


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
        raise _bad(where, "its host is neither a name nor an address") from None
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
            raise _bad(where, "is not the name of a header, or there twice")
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


def _credential(body: SubscriptionBody, before: Credential | None, *, is_same_sink: bool) -> Credential | None:
    given = body.sinkcredential
    if given is None:
        return None
    if given is UNSET:
        if before is None:
            return None
        if not is_same_sink:
            raise _bad("sinkcredential", f"must be said, or null: {_NOT_KEPT}")
        return before
    fields = {name: value for name, value in msgspec.structs.asdict(given).items() if value is not None}
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


def _secret(config: ConfigBody, before: str) -> str:
    given = config.signingsecret
    if given is UNSET:
        return before
    if given is None:
        return ""
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
