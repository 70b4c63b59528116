"""The stories, played against real hosts."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from tests.scripts.script import Comment, ScriptError, Step, first_difference, parse, play, render, stories
from tests.scripts.stage import Stage

HERE = Path(__file__).parent
STORIES = stories(HERE)


def stage_for(kind: str) -> Stage:
    stage = Stage(kind)
    import_module(f"tests.scripts.{kind}.verbs").install(stage)
    return stage


@pytest.mark.parametrize("path", STORIES, ids=[path.relative_to(HERE).with_suffix("").as_posix() for path in STORIES])
def test_the_story_goes_as_it_is_written(path: Path, rewrite: bool) -> None:
    name = path.relative_to(HERE.parent.parent).as_posix()
    wanted = parse(path.read_text(encoding="utf-8"), name)
    stage = stage_for(path.parent.name)
    got = play(wanted, stage.run, name)
    stage.world.check()
    if rewrite:
        path.write_text(render(got), encoding="utf-8")
        return
    assert (report := first_difference(wanted, got, name)) is None, report
    assert path.read_text(encoding="utf-8") == render(got), f"{name} is not in the shape that --rewrite gives it"


@pytest.mark.parametrize("path", STORIES, ids=[path.stem for path in STORIES])
def test_a_story_begins_by_saying_what_it_tells(path: Path) -> None:
    first = parse(path.read_text(encoding="utf-8"))[0]
    assert isinstance(first, Comment)
    assert len(first.text.splitlines()) >= 2


def test_a_story_that_goes_otherwise_is_reported_with_both_outputs() -> None:
    wanted = parse("# A story\n# of nothing.\n\ngreet\n----\nhello\n")
    report = first_difference(wanted, play(wanted, lambda _command: "goodbye"), "greeting.txt")
    assert report is not None
    assert report.startswith("greeting.txt:4: greet")
    assert "    hello" in report
    assert "    goodbye" in report


def test_playing_and_rendering_a_story_gives_the_story_back() -> None:
    text = "# A story\n# of two steps.\n\ngreet\n----\nhello\n\n# Then silence.\n\npart\n----\nbye\nbye\n"
    answers = {"greet": "hello", "part": "bye\nbye"}
    assert render(play(parse(text), answers.__getitem__)) == text


def test_a_command_without_its_line_of_dashes_is_named_with_its_place() -> None:
    with pytest.raises(ScriptError, match=r"story\.txt:3: .*'greet'"):
        parse("# A story\n\ngreet\nhello\n", "story.txt")


def test_an_unknown_command_says_which_there_are() -> None:
    with pytest.raises(AssertionError, match=r"unknown command 'dance'; known: .*advance"):
        stage_for("cluster").run("dance w1")


def test_steps_are_numbered_by_their_line() -> None:
    assert parse("# x\n# y\n\ngreet\n----\nhello\n")[1] == Step(4, "greet", "hello")
