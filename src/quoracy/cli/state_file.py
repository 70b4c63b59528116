"""A run in a file: its name, its kind, and its settings, as ``quoracy run create state.toml`` takes it.

Everything that is wrong is found before anything is said, each with the line it stands in, its value, and what would
do: also settings that exclude each other.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from quoracy.core.errors import ConfigError, ConfigErrors
from quoracy.core.kinds import KINDS
from quoracy.core.machine import Kind
from quoracy.core.wanted import wrong_settings

SUFFIX: Final = ".toml"
OF_THE_FILE: Final = ("run_id", "kind", "label")
MAX_NAME: Final = 128
MAX_LABEL: Final = 256
_TABLE: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_.\-]+)\s*=")
_INLINE: Final = re.compile(r"[{,]\s*([A-Za-z0-9_\-]+)\s*=")


class StateFile(msgspec.Struct, frozen=True):
    run: str
    kind: str
    label: str
    config: dict[str, Any]


class Wrong(ConfigError):
    """A setting in a file: says in which line."""

    def __init__(self, path: Path, line: int, problem: ConfigError) -> None:
        place = f"{path}:{line}" if line else str(path)
        super().__init__(f"{place}: {problem.field}", problem.value, problem.fix)
        self.line = line
        self.name = problem.field


def read_state(path: Path) -> StateFile:
    """Raises ConfigErrors with all that is wrong."""
    text, given = _parsed(path)
    problems = list(_problems(given))
    if problems:
        lines = find_lines(text)
        raise ConfigErrors([Wrong(path, line_of(problem.field, lines), problem) for problem in problems])
    name, label = given.get("run_id", path.stem), given.get("label", "")
    return StateFile(name, given.get("kind", "witnessed"), label, _settings(given))


def _parsed(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise ConfigError("STATE.TOML", str(path), f"cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits, and lists as deep
        raise ConfigError("STATE.TOML", str(path), f"is no TOML: {error}") from None


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in OF_THE_FILE}


def _problems(given: dict[str, Any]) -> Iterator[ConfigError]:
    for name, least, most in (("run_id", 1, MAX_NAME), ("label", 0, MAX_LABEL)):
        value = given.get(name, "-")
        if not isinstance(value, str) or not least <= len(value) <= most:
            yield ConfigError(name, value, f"a text of {least} to {most} characters, or leave it out")
    try:
        kind = KINDS.newest(given.get("kind", "witnessed"))
    except (ConfigError, TypeError):
        known = ", ".join(sorted({kind.name for kind in KINDS}))
        yield ConfigError("kind", given["kind"], f"one of: {known}")
        return
    yield from check_settings(kind, _settings(given))


def check_settings(kind: Kind, given: dict[str, Any]) -> Iterator[ConfigError]:
    """What is wrong with each, and then what is wrong between those that are right."""
    wrong = list(wrong_settings(given, kind.config))
    yield from wrong
    out = {problem.field.partition(".")[0].partition("[")[0] for problem in wrong}
    rest = {name: value for name, value in given.items() if name not in out}
    try:
        kind.check_config(msgspec.convert(rest, kind.config))
    except msgspec.ValidationError as error:
        if not wrong:
            yield ConfigError("settings", rest, str(error))
    except ConfigErrors as found:
        yield from (problem for problem in found.problems if not out & _named(problem))
    except ConfigError as found:
        yield from (problem for problem in (found,) if not out & _named(problem))


def _named(problem: ConfigError) -> set[str]:
    """The settings that a problem is about: nobody knows what those that are wrong were meant to be."""
    return {problem.field, *re.findall(r"[a-z_]+", problem.fix)}


# -- lines -----------------------------------------------------------------------------------------------------------


def find_lines(text: str) -> dict[str, int]:
    """The line of each setting by its full name, as far as it can be told by looking."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (header := _TABLE.fullmatch(line)) is not None:
            table = header[1].replace(" ", "").replace('"', "") + "."
            found.setdefault(table.rstrip("."), number)
        elif (key := _KEY.match(line)) is not None:
            name = table + key[1]
            found.setdefault(name, number)
            for inside in _INLINE.findall(line[key.end() :]):
                found.setdefault(f"{name}.{inside}", number)
    return found


def line_of(field: str, lines: dict[str, int]) -> int:
    """Of the setting, or of the one it is in; 0 if it is not there, as with a default that does not fit the rest."""
    while field:
        if field in lines:
            return lines[field]
        field = re.sub(r"(\.[^.\[]*|\[\d+\])$", "", field) if re.search(r"[.\[]", field) else ""
    return 0
