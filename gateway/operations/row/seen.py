"""Messages as a caller is shown them: the masks that hold for it, and the audit of its looks at bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from entrepot.domain.access.model import Principal, ResourceType, access_name
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.gateway.operations.row.masking import Masking, Shown, unmasked

if TYPE_CHECKING:
    from entrepot.gateway.security.security import Security
    from entrepot.gateway.settings.listeners import MaskRule


class Contents:
    """The parts of messages that callers see, by the rules of the settings."""

    def __init__(self, security: Security, rules: Sequence[MaskRule]) -> None:
        self._security, self._rules = security, rules

    def shown_to(self, principal: Principal) -> Callable[[StoredMessage], Shown]:
        """Return the view of a caller: everything for super users, and where no rule masks anything."""
        security = self._security
        if not self._rules or (security.is_super(principal) and security.lost(principal) is None):
            return unmasked
        return Masking(self._rules).shown

    def body(self, principal: Principal, message: StoredMessage) -> bytes:
        """Return the whole body as a caller is shown it.  Raises FORBIDDEN where it is hidden."""
        body = self.shown_to(principal)(message).body
        if body is None:
            raise EntrepotError(Code.FORBIDDEN, "the bodies of this topic are shown to super users only")
        return body

    def note(self, principal: Principal, topic: str, detail: str) -> None:
        """Write a look at bodies of a topic's messages to the audit log, once for a request."""
        resource = f"{ResourceType.TOPIC}:{access_name(topic)}"
        self._security.audit.seen("contents seen", principal.name, principal.source, resource, detail)
