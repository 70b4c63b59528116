"""Journals that tests may look at, and copies that they may damage."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.journals import build, said

from quoracy.bench.load import RUN


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole")
    build(directory).close()
    return directory


@pytest.fixture(scope="session")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a killed process leaves it: nearly everything is in the log."""
    live, directory = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("crashed")
    with closing(build(live)):
        shutil.copytree(live, directory, dirs_exist_ok=True)
    (directory / "journal.db-shm").unlink()
    return directory


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


@pytest.fixture(scope="session")
def exported(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("export") / "run.qseg"
    said("export", whole, RUN, file)
    return file
