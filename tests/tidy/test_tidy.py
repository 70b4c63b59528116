"""Style as a test: lengths, names, docstrings, and what must not be in the source at all."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "quoracy"
TESTS = ROOT / "tests"
MAX_FUNCTION_LINES = 70
GENERATED = {"wire/pb"}
"""Folders whose files are written by a program."""

BANNED = {"manager", "helper", "helpers", "util", "utils", "common", "misc", "info"}
"""Words that say nothing, wherever they stand in a name."""
BANNED_ALONE = {"data"}
ALLOWED = {
    ("src/quoracy/hosts/log.py", "info"),
    ("src/quoracy/core/witnessed/config.py", "data"),
    ("src/quoracy/sim/doors.py", "get_extra_info"),
    ("src/quoracy/sim/doors.py", "info"),
}
"""(file, name): a level of the log, and a setting in people's files, are called what everybody calls them."""
IMPURE = {
    "asyncio", "datetime", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "select",
    "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
PURE = {
    "__future__", "abc", "ast", "bisect", "collections", "dataclasses", "difflib", "enum", "fractions", "functools",
    "hashlib", "heapq", "hmac", "itertools", "math", "operator", "re", "statistics", "struct", "types", "typing",
}  # fmt: skip
"""What the core may import of the standard library: what has no clock, no chance and no world."""
MAY_ADD_NUMPY = {"shards.py"}
REGISTRIES = re.compile(r"pypi\.org|pythonhosted\.org|registry\.npmjs|docker\.io|ghcr\.io|quay\.io|crates\.io")


def source_files() -> list[Path]:
    return sorted(
        path
        for path in SOURCE.rglob("*.py")
        if not any(path.relative_to(SOURCE).as_posix().startswith(folder) for folder in GENERATED)
    )


def test_files() -> list[Path]:
    return sorted(path for path in TESTS.rglob("*.py"))


test_files.__test__ = False  # type: ignore[attr-defined]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def words(name: str) -> list[str]:
    """HTTPServer_info -> http, server, info."""
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", name)
    return [part.lower() for part in parts]


def bad_name(name: str) -> bool:
    return bool(BANNED & set(words(name))) or name.strip("_").lower() in BANNED_ALONE


def named(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name the file itself gives: classes, functions, parameters, variables, attributes it assigns."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node.lineno


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield ("." * node.level) + (node.module or ""), node.lineno


def comments(text: str) -> Iterator[tuple[str, int]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string, token.start[0]


def complaints(path: Path, text: str) -> list[str]:
    """Everything that is wrong with one file of the source."""
    tree = ast.parse(text)
    where = name_of(path) if path.is_relative_to(ROOT) else path.name
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or 0) - node.lineno + 1
            if size > MAX_FUNCTION_LINES:
                found.append(f"{where}:{node.lineno}: {node.name} has {size} lines, at most {MAX_FUNCTION_LINES}")
    bad = [(name, line) for name, line in named(tree) if bad_name(name) and (where, name) not in ALLOWED]
    found += [f"{where}:{line}: the name {name}" for name, line in bad]
    if bad_name(path.stem):
        found.append(f"{where}: the name of the module")
    if tree.body and ast.get_docstring(tree) is None and path.name != "version.py":
        found.append(f"{where}: no docstring")
    return found + faults(where, tree, text)


def faults(where: str, tree: ast.AST, text: str) -> list[str]:
    """What must not be in the source at all."""
    found = []
    for said, line in comments(text):
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", said):
            found.append(f"{where}:{line}: unfinished: {said.strip()[:60]}")
    for module, line in imports(tree):
        if module.split(".")[0] in {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}:
            found.append(f"{where}:{line}: imports {module}")
    if re.search(r"\bpickle\.|allow_pickle\s*=\s*True|weights_only\s*=\s*False", text):
        found.append(f"{where}: pickles")
    if REGISTRIES.search(text):
        found.append(f"{where}: names a registry")
    return found


def impurities(path: Path, text: str) -> list[str]:
    """Imports of a file of the core that it may not have."""
    found = []
    for module, line in imports(ast.parse(text)):
        top = module.split(".")[0]
        allowed = top in PURE or top == "msgspec" or module.startswith("quoracy.core") or module == "quoracy"
        if not allowed and not (top == "numpy" and path.name in MAY_ADD_NUMPY):
            found.append(f"{name_of(path) if path.is_relative_to(ROOT) else path.name}:{line}: imports {module}")
    return found


@pytest.mark.parametrize("path", source_files(), ids=name_of)
def test_a_file_of_the_source_is_tidy(path: Path) -> None:
    assert complaints(path, path.read_text()) == []


@pytest.mark.parametrize("path", sorted((SOURCE / "core").rglob("*.py")), ids=name_of)
def test_the_core_imports_nothing_that_has_a_clock_chance_or_a_world(path: Path) -> None:
    assert impurities(path, path.read_text()) == []


def test_what_is_pure_and_what_is_not_do_not_overlap() -> None:
    assert PURE.isdisjoint(IMPURE)


def switched_off(text: str) -> list[str]:
    """Tests that are skipped or expected to fail, as attributes of pytest, its marks or unittest."""
    off = {"skip", "skipif", "xfail", "importorskip", "skipIf", "skipUnless", "expectedFailure"}
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute) and node.attr in off]
    return [f"line {node.lineno}: {ast.unparse(node)}" for node in found]


@pytest.mark.parametrize("path", test_files(), ids=name_of)
def test_no_test_is_switched_off(path: Path) -> None:
    assert switched_off(path.read_text()) == []


def test_every_room_has_its_map() -> None:
    """A folder of modules has an __init__, so that it is a package and nothing is found by accident."""
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    assert [name_of(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


# -- these checks can fail -----------------------------------------------------------------------------------------

GOOD = '"""A room."""\n\nrun = 1\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD + "def f():\n" + "    x = 1\n" * 70, "f has 71 lines"),
        (GOOD + "class RunManager: ...\n", "the name RunManager"),
        (GOOD + "def load_utils(): ...\n", "the name load_utils"),
        (GOOD + "worker_info = 1\n", "the name worker_info"),
        (GOOD + "def f(data): ...\n", "the name data"),
        (GOOD + "for data in (): ...\n", "the name data"),
        (GOOD + "self.common = 1\n", "the name common"),
        ("run = 1\n", "no docstring"),
        (GOOD + "# TODO: later\n", "unfinished"),
        (GOOD + "import pickle\n", "imports pickle"),
        (GOOD + "from pickle import loads\n", "imports pickle"),
        (GOOD + "x = np.load(f, allow_pickle=True)\n", "pickles"),
        (GOOD + 'where = "https://pypi.org/simple"\n', "names a registry"),
    ],
    ids=lambda value: value[-25:].strip() if "\n" in value else value,
)
def test_a_planted_fault_is_found(text: str, complaint: str) -> None:
    assert any(complaint in found for found in complaints(Path("room.py"), text))


def test_a_module_with_a_name_that_says_nothing_is_found() -> None:
    assert complaints(Path("run_utils.py"), GOOD) == ["run_utils.py: the name of the module"]


@pytest.mark.parametrize(
    "text",
    ["@pytest.mark.skip\ndef f(): ...", "pytest.skip('no')", "m = pytest.mark.xfail(strict=True)",
     "np = pytest.importorskip('numpy')", "@unittest.skipIf(1, 'x')\ndef f(): ..."],
)  # fmt: skip
def test_a_test_that_is_switched_off_is_found(text: str) -> None:
    assert len(switched_off(text)) == 1


@pytest.mark.parametrize("text", [GOOD, "", GOOD + "dataset = metadata = information = 1\nclass Dataset: ...\n"])
def test_a_tidy_file_is_left_alone(text: str) -> None:
    assert complaints(Path("room.py"), text) == []


@pytest.mark.parametrize(
    "line", [*(f"import {module}" for module in sorted(IMPURE)), "from os import path", "import numpy", "import rich",
             "from quoracy.stores import memory", "import quoracy.ports", "from . import dice"],
)  # fmt: skip
def test_a_planted_impurity_is_found(line: str) -> None:
    assert len(impurities(Path("dice.py"), line)) == 1


@pytest.mark.parametrize(
    "line", ["import msgspec", "from hashlib import blake2b", "from quoracy.core.codec import encode"]
)
def test_what_the_core_may_import_is_left_alone(line: str) -> None:
    assert impurities(Path("dice.py"), line) == []
