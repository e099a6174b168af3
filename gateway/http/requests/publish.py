"""Publishes at once: a publish that only waits for the store costs little more than its event.

It is taken from the connection before there is a request.  Others, and all of namespaces, are requests like others
(`operations/nouns/publishing.py`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.http.requests.access import HttpAccess
from entrepot.gateway.http.requests.asgi import Headers, decoded_name
from entrepot.gateway.http.requests.at_once import OnPublished, Peer
from entrepot.gateway.http.requests.problems import ProblemAnswer, answer_of, log_refusal
from entrepot.gateway.operations.nouns.batch_refusals import refusal_of
from entrepot.gateway.operations.nouns.published_events import examined, messages_of
from entrepot.gateway.operations.nouns.publishing import Publishing, is_reserved
from entrepot.protocols.cloudevents.errors import CloudEventError

if TYPE_CHECKING:
    from entrepot.domain.access.model import Principal
    from entrepot.gateway.messaging.send import Refusals, Sender

PREFIX: Final = b"/topics/"
SUFFIX: Final = b":publish"
_PATH: Final = re.compile(rb"(?P<namespace>/namespaces/[^/]+)?/topics/(?P<topic>[^/]*):publish")
_CACHED_URLS: Final = 512

PUBLISHED: Final = b"{}"
"""Event Grid's PublishResult, which is empty."""
PUBLISHED_HEADERS: Final[Headers] = [(b"content-type", b"application/json")]


def is_publish(raw_path: bytes) -> bool:
    """True for a publish path of any namespace."""
    return raw_path.endswith(SUFFIX) and _PATH.fullmatch(raw_path) is not None


class PublishingAtOnce:
    """Implements `PublishAtOnce`, by the checks of the operation."""

    def __init__(self, publishing: Publishing, access: HttpAccess, sender: Sender) -> None:
        self._publishing, self._access, self._sender = publishing, access, sender

    def may_come(self, url: bytes, headers: Headers, peer: Peer) -> bool:
        """True if, judging by its head, a POST can be taken at once; else the operation refuses or awaits it."""
        try:
            return not examined(headers)[-1] and self._publisher(url, headers, peer) is not None
        except Exception:  # noqa: BLE001 - it recurs in the operation, where it is logged and answered
            return False

    def at_once(self, url: bytes, headers: Headers, peer: Peer, body: bytes, on_published: OnPublished) -> bool:
        """Take a whole POST; True if it was taken.  False, with nothing done, where it must wait for more than the
        store (authentication, room, a new topic, deduplication), or where a page may have sent it."""
        publishing = self._publishing

        def on_sent(failure: EntrepotError | None, refusals: Refusals) -> None:
            refusal = failure if refusals is None else refusal_of(refusals)
            on_published(None if refusal is None else _told(url, refusal))

        try:
            publisher = self._publisher(url, headers, peer)
            if publisher is None:
                return False
            principal, plain = publisher
            content_type, _, trace, may_be_page = examined(headers)
            if may_be_page:
                return False
            messages = messages_of(headers, content_type, trace, body, plain, publishing.max_batch_events)
            publishing.check(principal, messages)
            publishing.check_batch(messages)
            publishing.mark(messages, principal)
            self._sender.send(messages, on_sent)
            publishing.published += len(messages)
        except (EntrepotError, CloudEventError) as error:
            on_published(_told(url, error))
        except Exception:  # noqa: BLE001 - it recurs in the operation, where it is logged and answered
            return False
        return True

    def _publisher(self, url: bytes, headers: Headers, peer: Peer) -> tuple[Principal, str] | None:
        """The publisher and the topic; None where either, or the answer, needs waiting."""
        plain = _topic_at(url)
        if not plain or not self._publishing.is_ready_for(plain):
            return None
        principal = self._access.at_once({**peer, "headers": headers})
        return None if principal is None else (principal, plain)


@lru_cache(_CACHED_URLS)
def _topic_at(url: bytes) -> str:
    """The topic in a publish URL of the default namespace; empty where the fast path does not apply."""
    found = _PATH.fullmatch(url)
    topic = "" if found is None or found["namespace"] or b"?" in found["topic"] else decoded_name(found["topic"])
    return "" if is_reserved(topic) else topic


def _told(url: bytes, error: EntrepotError | CloudEventError) -> ProblemAnswer:
    problem = answer_of(error)
    log_refusal("POST", unquote(url.decode("latin-1")), problem.status, error.message)
    return problem
