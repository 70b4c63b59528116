"""What is handed out: the wheel has what a client in another language needs, the sdist what the tests need, and every
``pip install`` that a page or a message names is one that works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

from quoracy.version import INSTALL_TORCH
from quoracy.wire import protos

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HANDED_OUT = (".ci", "docs", "examples", "proto", "src", "tests")
BESIDES = (".gitignore", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "pyproject.toml")
BUILD = "import sys, hatchling.build as made; made.build_wheel(sys.argv[1]); made.build_sdist(sys.argv[1])"


class Built(NamedTuple):
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, check=True, timeout=60)
    return Built(next(folder.glob("*.whl")), next(folder.glob("*.tar.gz")))


def ours() -> set[str]:
    """Every file that somebody wrote."""
    found = {str(path.relative_to(ROOT)) for top in HANDED_OUT for path in (ROOT / top).rglob("*") if path.is_file()}
    return {name for name in found if "__pycache__" not in name and ".egg-info" not in name} | set(BESIDES)


def test_the_sdist_has_everything_that_make_test_needs(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        top = f"{built.sdist.name.removesuffix('.tar.gz')}/"
        inside = {member.name.removeprefix(top): member for member in sdist.getmembers()}
    assert ours() - inside.keys() == set()
    assert inside[".ci/tools"].mode & 0o100, "it is started"


def test_the_wheel_has_the_proto_files_where_it_says(built: Built, tmp_path: Path) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        wheel.extractall(tmp_path)
    said = subprocess.run(
        [sys.executable, "-m", "quoracy.wire.protos"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True,
        timeout=60,
    )  # fmt: skip
    folder = Path(said.stdout.strip())
    assert folder == tmp_path / "quoracy" / "proto"
    written = {
        path.relative_to(ROOT / "proto"): path.read_bytes() for path in (ROOT / "proto/quoracy").rglob("*.proto")
    }
    assert {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.proto")} == written
    made = tmp_path / "made"
    made.mkdir()
    names = [str(name) for name in written]
    protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--python_out={made}", *names]
    subprocess.run(protoc, check=True, timeout=60)
    assert {path.name for path in made.rglob("*_pb2.py")} == {f"{Path(name).stem}_pb2.py" for name in names}


def test_a_checkout_has_the_proto_files_where_they_are_written() -> None:
    assert protos.folder() == ROOT / "proto"


# -- pip install -----------------------------------------------------------------------------------------------------

PIP = re.compile(r"pip3? install ([^\n`\"),;(]+)")
HAVE = {requirement.name: requirement for requirement in map(Requirement, [
    *PROJECT["dependencies"], *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
])}  # fmt: skip


def named() -> Iterator[tuple[str, str]]:
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    code = [path for top in ("src", "examples") for path in (ROOT / top).rglob("*.py")]
    for path in (*texts, *code):
        for found in PIP.finditer(path.read_text()):
            yield str(path.relative_to(ROOT)), found[1].strip()


def test_pip_is_told_something() -> None:
    assert {place for place, _ in named()} >= {"docs/using-ranks.md", "examples/grpc_worker.py"}


@pytest.mark.parametrize(("place", "what"), sorted(set(named())))
def test_every_pip_install_is_one_that_works(place: str, what: str) -> None:
    """This package is in no index under its name: it is installed from a checkout, and the rest by its own name."""
    for argument in shlex.split(what):
        if argument.startswith("-"):
            continue
        if argument.startswith("."):
            extra = re.fullmatch(r"\.(\[([a-z]+)\])?", argument)
            assert extra is not None, (place, what)
            assert extra[2] is None or extra[2] in PROJECT["optional-dependencies"], (place, what)
            continue
        wanted = Requirement(argument)
        assert wanted.name in HAVE, (place, what)
        assert str(wanted.specifier) in ("", str(HAVE[wanted.name].specifier)), (place, what)


def test_torch_is_told_with_the_version_of_the_extra() -> None:
    assert f"pip install {PROJECT['optional-dependencies']['torch'][0]}" == INSTALL_TORCH
