"""Operations of the dashboard: the login of a browser, the gateways, the overview."""

from __future__ import annotations

from typing import Final

from entrepot.domain.access.model import Action, ResourceType
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.documents.operation import GONE, Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import Maybe, listed, named, time

ANSWERED: Final = named(
    "Answered",
    "How many were asked, how many answered in time, and the others with the reason",
    {"asked": 4, "answered": 3, "missing": [{"name": "gw-4", "reason": "no answer within 1.5 s"}]},
)
_LOGIN: Final = named(
    "Login",
    "Who this browser is, and what that user may do to everything of a kind",
    {
        "user": Maybe("bob"),
        "isAnonymous": False,
        "isSuper": False,
        "expiresAt": Maybe(time()),
        "setupNeeded": False,
        "tls": True,
        "cluster": "default",
        "gateway": "gw-1",
        "version": "1.0.0",
        "may": [f"{ResourceType.CLUSTER}:{Action.LIST}"],
    },
)
_GATEWAY: Final = named(
    "Gateway",
    "A gateway process",
    {
        "name": "gw-1",
        "version": "1.0.0",
        "startedAt": time(),
        "isThis": True,
        "silentSeconds": Maybe(28.5),
    },
)

DASHBOARD_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/session"): Operation("getLogin", answers(_LOGIN)),
    ("POST", f"{PREFIX}/session"): Operation("logIn", answers(_LOGIN), example={"name": "bob", "password": "secret"}),
    ("DELETE", f"{PREFIX}/session"): Operation("logOut", GONE),
    ("GET", f"{PREFIX}/gateways"): Operation("listGateways", answers(listed(_GATEWAY, answered=ANSWERED))),
}
