"""Routes of `/api/v1` that are no rows of the table yet: journeys, trying a publish."""

from __future__ import annotations

from entrepot.gateway.http.admin.journeys.routes import journey_routes
from entrepot.gateway.http.admin.trying import trying_routes
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.routes import Routes


def admin_routes(context: HttpContext) -> list[Routes]:
    """All routes of the administration, in the order of the documentation."""
    kinds = (
        journey_routes,
        trying_routes,
    )
    return [kind(context) for kind in kinds]
