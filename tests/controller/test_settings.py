"""Settings of controllers, and the errors in them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from entrepot.gateway.cli.app import run
from entrepot.gateway.settings import ClusterSettings

THREE = ["1=a:1", "2=b:2", "3=c:3"]
GIVEN = ("--controllers", "1=a:1,2=b:2,3=c:3")


def test_controllers_have_ids() -> None:
    assert ClusterSettings(controllers=THREE).controller_addresses() == {1: "a:1", 2: "b:2", 3: "c:3"}
    assert ClusterSettings().controller_addresses() == {}


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"controllers": ["a:1"]}, "'a:1' is not id=host:port"),
        ({"controllers": ["0=a:1"]}, "'0=a:1' is not id=host:port"),
        ({"controllers": ["100=a:1"]}, "'100=a:1' is not id=host:port"),
        ({"controllers": ["1=a:0"]}, "'1=a:0' is not id=host:port"),
        ({"controllers": [*THREE, "1=d:4"]}, "controller 1 is named twice"),
        ({"lease_seconds": 0}, "greater than 0"),
    ],
)
def test_what_is_wrong_is_said(said: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        ClusterSettings.model_validate(said)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("controller", *GIVEN), "a controller needs its id among the controllers: --id, or controller.id"),
        (("controller", "--id", "1"), "a controller needs the addresses of all: --controllers, or cluster.controllers"),
        (("nameserver", "--controller", "1"), "a controller needs the addresses of all"),
        (
            ("controller", "--id", "4", *GIVEN),
            "cluster.controllers has no 4=host:port, which controller.id says this is; it has 1, 2, 3",
        ),
        (("nameserver", "--controller", "4", *GIVEN), "cluster.controllers has no 4=host:port"),
        (("controller", "--id", "1", "--controllers", "a:1"), "'a:1' is not id=host:port"),
    ],
)
def test_a_command_line_that_cannot_be(
    arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert problem in capsys.readouterr().err
