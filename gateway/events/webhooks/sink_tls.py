"""SinkTls: the authorities and client certificates of `webhooks.tls`, read again when their files change.

Subscriptions name them.  Invariant: one is used for the topics that the settings give it, and for no others: else a
tenant would show another's certificate to another's sink.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from entrepot.domain.access.model import access_name
from entrepot.gateway.events.subscriptions.record import TlsChoice
from entrepot.gateway.settings.webhooks import WebhookTls
from entrepot.gateway.transport.certificates import FileStamp, stamp_of

_Kept = tuple[tuple[FileStamp, ...], ssl.SSLContext]


class UnusableTlsError(OSError):
    """A name cannot be used: it is not there for the topic, or its files are not good."""


class SinkTls:
    """All of them, by name."""

    def __init__(self, settings: Sequence[WebhookTls]) -> None:
        self._known = {each.name: each for each in settings}
        self._kept: dict[str, _Kept] = {}

    def refusal_of(self, choice: TlsChoice) -> str | None:
        """Return why a subscription may not name it, or None.  It does not tell which names there are."""
        known = self._known.get(choice.name)
        if not choice.name or (known is not None and known.is_for(access_name(choice.topic))):
            return None
        return f"there is no {choice.name[:80]!r} for this topic in webhooks.tls"

    def context(self, choice: TlsChoice) -> ssl.SSLContext | None:
        """Return the context to connect with; None for the usual one.  It reads files where they have changed.  Raises
        UnusableTlsError."""
        if not choice.name:
            return None
        if (refusal := self.refusal_of(choice)) is not None:
            raise UnusableTlsError(refusal)
        chosen = self._known[choice.name]
        stamps = tuple(stamp_of(path) for path in (chosen.ca, chosen.certificate, chosen.key) if path is not None)
        kept = self._kept.get(choice.name)
        if kept is None or kept[0] != stamps:
            kept = self._kept[choice.name] = stamps, _context(chosen)
        return kept[1]


def _context(chosen: WebhookTls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=chosen.ca)
        if chosen.certificate is not None:
            context.load_cert_chain(chosen.certificate, chosen.key, password=lambda: "")
    except OSError:  # an error of ssl is one
        raise UnusableTlsError(f"the files of {chosen.name!r} in webhooks.tls cannot be used") from None
    return context
