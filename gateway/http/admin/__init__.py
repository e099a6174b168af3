"""Routes of `/api/v1` that are no rows of the table yet: watching."""

from __future__ import annotations

from entrepot.gateway.http.admin.watching import watching_routes
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.routes import Routes


def admin_routes(context: HttpContext) -> list[Routes]:
    """All routes of the administration, in the order of the documentation."""
    kinds = (watching_routes,)
    return [kind(context) for kind in kinds]
