"""What is printed fits, shows first what matters, and obeys nobody but its own program."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from quoracy.cli.asking import cut, few, said
from quoracy.cli.explain import waits_table
from quoracy.cli.run import check_reason, parse_settings
from quoracy.cli.status import runs_table
from quoracy.cli.top import Looked, page
from quoracy.core.errors import ConfigError


def worker(i: int, state: str = "Training", **more: Any) -> dict[str, Any]:
    return {
        "id": f"worker-{i:04d}", "state": state, "rank": i, "incarnation": 1, "address": "host", "gpus": 8, "losses": 0,
        "reason": "", "silent_s": 0.4, "stuck_s": 0.0, "waits": False, "step": 12, "epoch": 1, "progress": 345,
        "cpu": 0.5, "gpu": 0.9, "memory": 0.4, "task": "batch 12",
    } | more  # fmt: skip


def barrier(name: str = "step", **more: Any) -> dict[str, Any]:
    return {
        "name": name, "generation": 57, "step": 56, "released": 55, "aborted": 2, "last_to_come": "worker-0003",
        "longest_wait_s": 0.012,
    } | more  # fmt: skip


def fleet(workers: list[dict[str, Any]], barriers: list[dict[str, Any]], waits: list[Any] | None = None) -> Any:
    return {
        "run": "demo", "phase": "Open", "entry": 1234, "term": 2, "generation": 0, "host": "box-1", "address": "tcp://x",
        "here": len(workers), "taking_part": len(workers), "workers": workers, "barriers": barriers,
        "explanation": {"sentence": "many words " * 90, "waits": waits or []},
    }  # fmt: skip


def wait(what: str, *missing: str, left_us: int | None = 9_000_000) -> dict[str, Any]:
    return {"what": what, "missing": list(missing), "waited_us": 5_000_000, "left_us": left_us, "then": "it is lost"}


def printed(renderable: Any, width: int = 80, height: int = 24) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, height=height, highlight=False).print(renderable)
    return out.getvalue().splitlines()


BIG = fleet(
    [worker(i) for i in range(990)] + [worker(i, "Failed", reason="no sign of life") for i in range(990, 1000)],
    [barrier("step", arrived=900, missing=["worker-0700", "worker-0800"], waited_s=3.0)]
    + [barrier(f"b{i}") for i in range(40)],
    [wait("a heartbeat", "worker-0500")],
)  # fmt: skip


@pytest.mark.parametrize("height", [10, 24, 40, 60])
@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_thousand_workers_fit_any_terminal(width: int, height: int) -> None:
    lines = printed(page(BIG, height, {"step": 3.2}, "the coordinator is gone"), width, height)
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width
    assert "demo" in lines[0]
    assert "the coordinator is gone" in lines[1]


def test_those_that_matter_come_first() -> None:
    shown = fleet(
        [
            worker(0), worker(1, stuck_s=130.0), worker(2, waits=True), worker(3), worker(4),
            worker(5, "Left", reason="done"), worker(6, "Failed", reason="no sign of life", losses=2),
        ],
        [barrier(arrived=1, missing=["worker-0003"])],
        [wait("a heartbeat", "worker-0004")],
    )  # fmt: skip
    rows = [line for line in printed(page(shown, None), 120) if "worker-0" in line and not line.startswith("step")]
    assert [row.split("worker-")[1][:4] for row in rows] == ["0001", "0004", "0003", "0000", "0002", "0006", "0005"]
    tails = ["stuck for 2.2 min", "silent: lost in 9.0 s", "awaited at step", "batch 12", "waits", "no sign of life"]
    assert [row.rstrip().endswith(tail) for row, tail in zip(rows, tails, strict=False)] == [True] * 6


def test_who_is_awaited_at_one_barrier_and_waits_at_another_is_shown_with_both() -> None:
    shown = fleet([worker(0, waits=True), worker(1)], [barrier(arrived=1, missing=["worker-0000", "worker-0001"])])
    rows = [line.rstrip() for line in printed(page(shown, None), 120) if "worker-000" in line][1:]
    assert rows[0].endswith("awaited at step, waits at another")
    assert rows[1].endswith("awaited at step")


def test_what_is_due_happens_at_any_moment_and_not_in_nothing() -> None:
    due = [wait("a heartbeat", "worker-0000", left_us=0)]
    assert "it is lost at any moment" in "".join(printed(waits_table(due)))
    assert "silent: lost at any moment" in "".join(printed(page(fleet([worker(0)], [], due), None), 120))


def test_everybody_is_counted_and_who_is_not_shown_too() -> None:
    lines = printed(page(BIG, 24))
    assert "1,000 workers (" in lines[-1]
    assert "990 Training, 10 Failed" in lines[-1]
    assert "worker-0500" in "".join(lines)


def test_how_many_are_missing_is_right_even_if_not_all_are_named() -> None:
    shown = fleet([worker(i) for i in range(300)], [barrier(arrived=10, missing=[f"w{i}" for i in range(100)])])
    line = next(line for line in printed(page(shown, None), 120) if line.startswith("step"))
    assert "10/300" in line
    assert line.rstrip().endswith("w7 +282")


def test_without_a_height_nothing_is_left_out() -> None:
    lines = printed(page(BIG, None), 120)
    assert sum("worker-0" in line for line in lines) >= 1000
    assert "not shown" not in lines[-1]


def test_a_run_that_another_host_serves_is_shown_as_far_as_it_is_known() -> None:
    shown = {"run": "demo", "entry": 3, "term": 2, "host": "box", "address": "tcp://there:7700",
             "explanation": {"sentence": "this host does not serve the run; box does", "waits": []}}  # fmt: skip
    lines = printed(page(shown, 24))
    assert "tcp://there:7700" in lines[0]
    assert lines[1] == "this host does not serve the run; box does"


def test_the_rate_of_a_barrier_is_seen_by_looking_twice() -> None:
    before = Looked(fleet([worker(0)], [barrier(released=10)]))
    after = before.again(fleet([worker(0)], [barrier(released=30)]))
    assert after.rates["step"] > 20
    assert "per s" in "".join(printed(after, 120, 40))
    again = after.in_trouble("it is gone")
    assert "it is gone; this is" in printed(again, 120, 40)[1]
    assert again.rates == after.rates


@pytest.mark.parametrize("text", ["\x1b[2Jgone", "\x07bell", "a\rb", "a\nb", "[bold]b[/]", "\u202eback"])
def test_what_others_wrote_moves_no_cursor_and_is_no_markup(text: str) -> None:
    shown = fleet([worker(0, task=text), worker(1, "Failed", reason=text)], [barrier(text, last_to_come=text)])
    shown["explanation"] = {"sentence": text, "waits": [wait(text, text)]}
    shown["run"] = shown["phase"] = shown["host"] = text
    pages = [page(shown, 24), waits_table(shown["explanation"]["waits"]), runs_table([shown | {"kind": text}])]
    for renderable in pages:
        written = "\n".join(printed(renderable, 200))
        assert not {"\x1b", "\x07", "\r", "\u202e"} & set(written)
        assert "a\nb" not in written
        assert text.count("[bold]") == 0 or "[bold]b[/]" in written


# -- words and numbers ----------------------------------------------------------------------------------------------


def test_settings_are_what_json_makes_of_them_or_text() -> None:
    given = ["a=8", "b=2.5", "c=true", "d=text", 'e="8"', "f=", "g=x=y", "h=[1, 2]", " i =1"]
    assert parse_settings(given) == {
        "a": 8, "b": 2.5, "c": True, "d": "text", "e": "8", "f": "", "g": "x=y", "h": [1, 2], "i": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "fix"), [(["a"], "KEY=VALUE"), (["=8"], "KEY=VALUE"), ([""], "KEY=VALUE"), (["a=1", "a=2"], "twice")]
)
def test_bad_settings_are_named(given: list[str], fix: str) -> None:
    with pytest.raises(ConfigError, match=fix):
        parse_settings(given)


@pytest.mark.parametrize("reason", ["", "  ", "x" * 257])
def test_a_reason_is_a_reason(reason: str) -> None:
    with pytest.raises(ConfigError, match="--reason"):
        check_reason(reason)


def test_durations_are_short() -> None:
    spans = [None, 0.0, 0.0042, 0.25, 1.5, 42.0, 150.0, 4000.0, 90_000.0, 900_000.0]
    assert [said(span) for span in spans] == [
        "", "0 ms", "4.2 ms", "250 ms", "1.5 s", "42 s", "2.5 min", "67 min", "25 h", "10 d",
    ]  # fmt: skip


def test_few_names_and_how_many_more() -> None:
    assert few(["a", "b"], 3) == "a, b"
    assert few(["a", "b", "c", "d"], 3) == "a, b, c +1"
    assert few(["a", "b", "c", "d"], 3, 300) == "a, b, c +297"
    assert cut("abcdef", 4) == "abc…"
