"""The door's name and settings; its libraries are loaded with the door."""

from pydantic import Field

from entrepot.gateway.door.kind import DoorKind
from entrepot.gateway.settings.table import Port, Table


class LinesSettings(Table):
    """The listener for lines of text."""

    enabled: bool = Field(True, description="Open the listener for lines")
    port: Port = Field(7000, description="TCP port; 0: a free one")


DOOR = DoorKind("lines", "entrepot_lines_door:LinesDoor", LinesSettings)
