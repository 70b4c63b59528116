"""Releases are recorded once, with a date in the changelog, and the command that records them makes no mistake."""

from __future__ import annotations

import re
import shutil
from datetime import date
from pathlib import Path

import msgspec
import pytest

from quoracy.docs import release
from quoracy.docs.release import DOCUMENT, PROMISED, RELEASED, SECTION, main, promises, releases
from quoracy.doors.http.openapi import document
from quoracy.version import __version__

ROOT = Path(__file__).parents[2]
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


SINCE = (0, 2, 0)
"""Nothing of 0.1 is read or spoken any more."""


def test_every_release_has_its_section_with_a_date_and_its_record() -> None:
    headed = [version for version, _ in SECTION.findall(CHANGES) if number(version) >= SINCE]
    assert headed == [folder.name for folder in reversed(releases(ROOT))] != []
    assert all(date.fromisoformat(day) for _, day in SECTION.findall(CHANGES))
    heads = re.findall(r"^## (.*)$", CHANGES, re.MULTILINE)
    assert heads == ["Unreleased", *(f"{version} ({day})" for version, day in SECTION.findall(CHANGES))]


def test_the_version_is_that_of_the_last_release_or_a_later_one() -> None:
    assert number(__version__) >= number(releases(ROOT)[-1].name)


@pytest.mark.parametrize("folder", releases(ROOT), ids=lambda folder: folder.name)
def test_a_record_is_whole(folder: Path) -> None:
    recorded = msgspec.json.decode((folder / DOCUMENT).read_bytes())
    assert recorded["info"]["version"] == folder.name
    assert {"coordinator.proto", "federated.proto", DOCUMENT} <= {path.name for path in folder.iterdir()}


def test_make_knows_how() -> None:
    made = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nrelease: ")[2].splitlines()[1]
    assert made.strip() == f"$(BIN)/python -m {release.__name__}"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A repository as far as the command looks at it, before its first release."""
    shutil.copytree(ROOT / PROMISED, tmp_path / PROMISED)
    (tmp_path / "CHANGELOG.md").write_text(CHANGES, encoding="utf-8")
    return tmp_path


def test_what_is_recorded_is_what_there_is(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(copied)]) == 0
    folder = copied / RELEASED / __version__
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == promises(ROOT)
    assert msgspec.json.decode((folder / DOCUMENT).read_bytes()) == msgspec.to_builtins(document())
    assert capsys.readouterr().out.count("wrote: ") == len(promises(ROOT)) >= 3


def test_a_release_is_never_changed(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--root", str(copied)])
    kept = copied / RELEASED / __version__ / "coordinator.proto"
    (copied / PROMISED / "coordinator.proto").write_text("other", encoding="utf-8")
    assert main(["--root", str(copied)]) == 1
    assert "raise src/quoracy/version.py" in capsys.readouterr().err
    assert kept.read_text(encoding="utf-8") != "other"


def test_a_release_without_a_section_is_refused(
    copied: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "__version__", "9.9.9")
    assert main(["--root", str(copied)]) == 1
    assert "## 9.9.9 (YEAR-MONTH-DAY)" in capsys.readouterr().err
    assert not (copied / RELEASED).exists()


def test_another_folder_than_the_repository_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path)]) == 2
    assert "--root" in capsys.readouterr().err


def test_releases_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for version in ("0.10.0", "0.9.1", "1.0.0"):
        (tmp_path / RELEASED / version).mkdir(parents=True)
    assert [folder.name for folder in releases(tmp_path)] == ["0.9.1", "0.10.0", "1.0.0"]
