"""`/docs`: a page that lists and tries the operations of `/openapi.json`.  It contacts this server only."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response

from entrepot.gateway.http.dashboard.page_headers import PAGE_HEADERS

_FILES: Final = {
    "/docs": ("index.html", "text/html"),
    "/docs/page.js": ("page.js", "text/javascript"),
    "/docs/page.css": ("page.css", "text/css"),
}


def page_routes() -> APIRouter:
    """The page and its parts, without access control."""
    router = APIRouter()
    for path in _FILES:
        router.add_route(path, _page, methods=["GET"], include_in_schema=False)
    return router


async def _page(request: Request) -> Response:
    name, media_type = _FILES[request.scope["path"]]
    content = files("entrepot.gateway.http.documents").joinpath("page", name).read_bytes()
    return Response(content, media_type=media_type, headers=PAGE_HEADERS)
