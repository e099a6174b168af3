"""Controllers: list, add, remove, replace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta

from entrepot.domain.access.model import Action
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports.cluster import LEADS, control_of
from entrepot.gateway.operations.nouns.brokers import needed_control
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Body, Listed, Shown, WholeName, shown_as
from entrepot.gateway.settings.addresses import LARGEST_ID, is_address

if TYPE_CHECKING:
    from entrepot.domain.ports import Store
    from entrepot.domain.ports.cluster import ControllerStatus


class ControllerShown(Shown, frozen=True):
    """A controller, which elects the masters of brokers with the others"""

    controller: int | None
    address: str
    state: Literal["leads", "follows", "waits", "away", "outside"]
    problem: str | None


shown_as(ControllerShown(1, "192.0.2.10:9876", LEADS, "it does not answer"))


class NewController(Body, frozen=True):
    """The controller to add, and the one it replaces; 0: none."""

    controller: Annotated[int, Meta(ge=1, le=LARGEST_ID)]
    address: Annotated[str, Meta(max_length=300)]
    replaces: Annotated[int, Meta(ge=0, le=LARGEST_ID)] = 0


CONTROLLERS: Final = Noun("controllers", "/controllers", "controller")


class Controllers:
    """The operations of controllers, which are in no namespace."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @CONTROLLERS.get("", "listControllers", "List all controllers with their state", cluster(Action.LIST))
    async def listed(self) -> Listed[ControllerShown]:
        return Listed(await controllers_of(self._store))

    @CONTROLLERS.post(
        "",
        "addController",
        "Add a running controller, or replace another one by it",
        cluster(Action.UPDATE),
        change="controller added",
        example={"controller": 4, "address": "192.0.2.14:9876", "replaces": 2},
        outcome="The change has begun",
    )
    async def add(self, asked: Asked, body: NewController) -> Listed[ControllerShown]:
        if not is_address(body.address):
            raise EntrepotError(Code.BAD_REQUEST, f"address: {body.address!r} is not host:port")
        detail = f"at {body.address}" + (f" in place of {body.replaces}" if body.replaces else "")
        asked.tell(f"controller {body.controller}", detail)
        await needed_control(self._store).change_controllers(body.replaces, body.controller, body.address)
        return Listed(await controllers_of(self._store))

    @CONTROLLERS.delete(
        "/{controller}",
        "removeController",
        "Remove a controller for good",
        cluster(Action.DELETE),
        change="controller removed",
    )
    async def delete(self, controller: WholeName) -> None:
        await needed_control(self._store).change_controllers(controller, 0, "")


async def controllers_of(store: Store) -> list[ControllerShown]:
    """Return all controllers as they are shown; none where the store is in this process."""
    control = control_of(store)
    return [] if control is None else [_controller_of(each) for each in await control.controllers()]


def _controller_of(status: ControllerStatus) -> ControllerShown:
    return ControllerShown(
        status.controller or None,
        status.address,
        status.state,  # type: ignore[arg-type]  # one of the words above
        status.problem or None,
    )
