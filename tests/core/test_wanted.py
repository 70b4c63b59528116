"""What is wrong with settings is said at its place, in words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from quoracy.core.wanted import wanted, wrong_settings


class Round(msgspec.Struct, forbid_unknown_fields=True):
    size: float = 1.0


class Square(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="form", tag="square"):
    side: Annotated[float, Meta(gt=0, le=9)]
    corners: int = 4


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="form", tag="line"):
    length: int = 1


class Step(msgspec.Struct, forbid_unknown_fields=True):
    at: Annotated[int, Meta(ge=0)]


class Picture(msgspec.Struct, forbid_unknown_fields=True):
    shape: Square | Line = Line()
    hole: Round | None = None
    steps: Annotated[tuple[Step, ...], Meta(max_length=3)] = ()
    numbers: list[int] = []
    colour: Literal["red", "blue"] = "red"
    names: dict[str, int] = {}


def said(**given: Any) -> list[str]:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(given, Picture)
    return [str(problem) for problem in wrong_settings(given, Picture)]


FORMS = "names with values, of which form is one of: square, line"


ALL = ("shape", "hole", "steps", "numbers", "colour", "names")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"shape": {"form": "circle"}}, ["shape.form = 'circle': one of: square, line"]),
        ({"shape": {"side": 1}}, ["shape.form = None: one of: square, line"]),
        ({"shape": {"form": ["line"]}}, ["shape.form = ['line']: one of: square, line"]),
        ({"shape": "line"}, [f"shape = 'line': {FORMS}"]),
        ({"shape": {"form": "square", "side": 0}}, ["shape.side = 0: a number of at most 9 and above 0"]),
        ({"shape": {"form": "square"}}, ["shape.side = None: has to be given: a number of at most 9 and above 0"]),
        ({"shape": {"form": "square", "length": 2, "side": 1}},
         ["shape.length = 2: there is no such setting; there are: side, corners"]),
        ({"shape": {"form": "line", "length": "x"}, "colour": "green"},
         ["shape.length = 'x': a whole number", "colour = 'green': one of: red, blue"]),
        ({"hole": {"size": "big"}}, ["hole.size = 'big': a number"]),
        ({"hole": {"seize": 1}}, ["hole.seize = 1: there is no such setting; did you mean size? there are: size"]),
        ({"hole": 3}, ["hole = 3: names with values, or null"]),
        ({"steps": [{"at": 1}, {"at": -1}, {}]},
         ["steps[1].at = -1: a whole number of at least 0",
          "steps[2].at = None: has to be given: a whole number of at least 0"]),
        ({"steps": [{"at": 1}] * 4}, [f"steps = {[{'at': 1}] * 4}: a list: names with values"]),
        ({"steps": 4}, ["steps = 4: a list: names with values"]),
        ({"numbers": [1, "x"]}, ["numbers[1] = 'x': a whole number"]),
        ({"names": {"a": "x"}}, ["names = {'a': 'x'}: names with values"]),
        ({"sahpe": 1},
         [f"sahpe = 1: there is no such setting; did you mean shape? there are: {', '.join(ALL)}"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(given: dict[str, Any], why: list[str]) -> None:
    assert said(**given) == why


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Square | Line, FORMS),
        (Square | Line | None, f"{FORMS}, or null"),
        (list[int], "a list: a whole number"),
        (Annotated[list[Literal["a"]], Meta(max_length=2)], "a list: a"),
        (Annotated[float, Meta(gt=0, lt=1)], "a number above 0 and below 1"),
        (Annotated[float, Meta(ge=0, lt=1)], "a number of at least 0 and below 1"),
        (Annotated[int, Meta(ge=0, le=5)], "a whole number from 0 to 5"),
        (float, "a number"),
    ],
)
def test_what_a_field_takes_is_said_in_words(kind: Any, words: str) -> None:
    assert wanted(kind) == words
