"""Planted faults still fit the product: each patch applies, says what it is, and names tests that are there."""

from pathlib import Path

import pytest

from tests.mutants.mutant import ROOT, MutantError, all_mutants, apply_patch, read_mutant

HEAD = "Something is forgotten.\nA user loses it.\nTests: tests/unit\n"
DIFF = "\n--- a/domain/names.py\n+++ b/domain/names.py\n"


def test_every_patch_applies():
    for mutant in all_mutants():
        apply_patch(mutant.path, ROOT, "--check")


def test_every_patch_is_of_the_product_alone():
    for mutant in all_mutants():
        changed = [line[6:] for line in mutant.path.read_text().splitlines() if line.startswith("+++ b/")]
        assert changed, mutant.name
        assert not [name for name in changed if name.startswith("tests/")], mutant.name


def test_every_mutant_has_a_number_and_tests_that_are_there():
    mutants = all_mutants()
    assert [mutant.name.partition("-")[0] for mutant in mutants] == [
        f"{number:02}" for number in range(1, len(mutants) + 1)
    ]
    for mutant in mutants:
        assert mutant.tests, mutant.name
        assert [each for each in mutant.tests if not (ROOT / each).exists()] == [], mutant.name


def test_a_patch_that_says_what_it_is(tmp_path: Path):
    path = tmp_path / "01-room-what.patch"
    path.write_text(HEAD + DIFF)
    mutant = read_mutant(path)
    assert (mutant.told, mutant.tests) == ("Something is forgotten.\nA user loses it.", ("tests/unit",))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("room-what", HEAD + DIFF),
        ("01-room-what", DIFF),
        ("01-room-what", HEAD),
        ("01-room-what", "Something is forgotten.\n" + DIFF),
        ("01-room-what", "Tests: tests/unit\n" + DIFF),
    ],
    ids=["no number", "no head", "no diff", "no tests", "no sentence"],
)
def test_a_patch_that_does_not(tmp_path: Path, name: str, text: str):
    path = tmp_path / f"{name}.patch"
    path.write_text(text)
    with pytest.raises(MutantError, match=name):
        read_mutant(path)


def test_a_patch_that_does_not_apply_is_named(tmp_path: Path):
    path = tmp_path / "01-room-what.patch"
    path.write_text(HEAD + DIFF + "@@ -1 +1 @@\n-no such line\n+another\n")
    with pytest.raises(MutantError, match=r"01-room-what\.patch does not apply"):
        apply_patch(path, ROOT, "--check")
