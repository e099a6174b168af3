"""What the sync process does when asked, in this process."""

from __future__ import annotations

import errno
from pathlib import Path

from broker.store.sync_process import Files, carry_out


def test_publishing_moves_the_draft(tmp_path: Path):
    draft, final, other = (tmp_path / name for name in ("draft", "final", "other"))
    for path in (draft, final, other):
        path.write_text(path.name)
    assert carry_out(Files(), "publish", [str(other), str(draft), str(final)]) == 0
    assert (final.read_text(), draft.exists()) == ("draft", False)


def test_publishing_passes_over_what_is_gone(tmp_path: Path):
    """A topic may be deleted while a checkpoint that names its files is on its way to the disk."""
    draft = tmp_path / "draft"
    draft.write_text("x")
    files = Files()
    gone = tmp_path / "topic" / "0"
    assert carry_out(files, "publish", [str(gone), str(draft), str(tmp_path / "final")]) == 0
    assert (tmp_path / "final").read_text() == "x"


def test_syncing_or_publishing_what_must_be_there_fails(tmp_path: Path):
    missing = str(tmp_path / "missing")
    assert carry_out(Files(), "sync", [missing]) == errno.ENOENT
    assert carry_out(Files(), "publish", [missing, str(tmp_path / "final")]) == errno.ENOENT


def test_a_file_by_the_same_name_is_another_file(tmp_path: Path):
    files, path, draft = Files(), tmp_path / "queue", tmp_path / "draft"
    for content in ("old", "new"):
        path.unlink(missing_ok=True)
        path.write_text(content)
        draft.write_text(content)
        assert carry_out(files, "publish", [str(path), str(draft), str(tmp_path / "final")]) == 0
    assert (tmp_path / "final").read_text() == "new"
