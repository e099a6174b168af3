"""A session is its user's: nobody else gets it, or ends its connection."""

from __future__ import annotations

from pathlib import Path

from entrepot.protocols.mqtt.packets import Pingreq, Pingresp
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.mqtt.client import RawClient
from tests.support.mqtt.session_client import EXPIRY_SECONDS
from tests.support.processes.server import ServerProcess

SETTINGS = {
    **CHEAP_FLAGS,
    "security.anonymous": "always",
    "security.initial_admin": "root",
    "security.initial_admin_password": "not-a-secret",
}
PROPERTIES = {PropertyId.SESSION_EXPIRY_INTERVAL: EXPIRY_SECONDS}
ROOT = {"username": "root", "password": b"not-a-secret", "properties": PROPERTIES, "clean_start": False}


def test_somebody_else_with_the_client_id(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, SETTINGS) as server:
        port = server.port("mqtt")
        with RawClient(port) as owner:
            assert owner.connect("device", **ROOT).reason == ReasonCode.SUCCESS
            for clean_start in (True, False):
                with RawClient(port) as other:
                    answer = other.connect("device", clean_start=clean_start, properties=PROPERTIES)
                    assert answer.reason == ReasonCode.NOT_AUTHORIZED
            owner.say(Pingreq())
            owner.expect(Pingresp)
        with RawClient(port) as other:
            assert other.connect("device", properties=PROPERTIES).reason == ReasonCode.NOT_AUTHORIZED
        with RawClient(port) as owner:
            assert owner.connect("device", **ROOT).session_present
