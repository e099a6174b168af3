"""Every route of the HTTP door, those of the framework and those of the table of operations, as tests look at them."""

from __future__ import annotations

from typing import NamedTuple

from fastapi import FastAPI

from entrepot.gateway.http.access import HttpAccess
from entrepot.gateway.http.app import build_rest
from entrepot.gateway.http.publish import Publishing
from entrepot.gateway.http.rights import Open, SuperUsers
from entrepot.gateway.http.routes import RouteTable
from entrepot.gateway.operations.nouns import TABLE
from entrepot.gateway.operations.rights import ALWAYS
from tests.support.http_server import HttpServer


class Told(NamedTuple):
    """A route.  `is_for_all`: open to everybody, or to super users alone: no right of a name opens it."""

    method: str
    path: str
    change: str
    is_for_supers: bool
    is_for_all: bool


def rest_of(server: HttpServer) -> tuple[FastAPI, RouteTable]:
    """The framework's part."""
    context = server.context

    def build() -> tuple[FastAPI, RouteTable]:
        access = HttpAccess(context.security, context.clock)
        return build_rest(context, access, Publishing(context, access))

    return server.call(build)


def every_route(server: HttpServer) -> list[Told]:
    found = [
        Told(
            route.method,
            route.path,
            route.change,
            isinstance(route.rights, SuperUsers),
            isinstance(route.rights, Open | SuperUsers),
        )
        for route in rest_of(server)[1].routes
    ]
    for each in TABLE.operations:
        is_super = each.right.is_for_super_users
        is_for_all = is_super or each.right.opened_by == ALWAYS
        found += [Told(each.method, template, each.change, is_super, is_for_all) for template in each.templates]
    return found
