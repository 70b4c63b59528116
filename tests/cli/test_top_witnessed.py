"""The page of a witnessed run: fits any terminal, and shows first what matters."""

from __future__ import annotations

import io
from itertools import product
from typing import Any

import pytest
from rich.console import Console

from quoracy.cli.top import page
from quoracy.cli.top_witnessed import CURVE_LINES, GONE


def member(i: int, state: str = "InStep", **more: Any) -> dict[str, Any]:
    return {
        "id": f"m{i:03d}", "state": state, "incarnation": 1, "score": 4, "of": 5, "strikes": 0, "speed": 1000 - i,
        "reason": "", "silent_s": 0.4, "stuck_s": 0.0, "progress": 12, "metrics": {"accuracy": 0.91}, "keyed": True,
        "addresses": ["10.0.0.1:1"], "labels": {}, "witness": i < 5, "model": "ab" * 32,
    } | more  # fmt: skip


def work(i: int, committed: bool = True, attempt: int = 1) -> dict[str, Any]:
    return {
        "assignment": i, "attempt": attempt, "member": f"m{i:03d}", "batches": [[8 * i, 8 * i + 8]],
        "committed": committed,
    }  # fmt: skip


def sealed(count: int) -> list[dict[str, Any]]:
    return [
        {"step": step, "epoch": step // 20, "round": step % 20, "loss": 2.3 / (1 + step / 9)} for step in range(count)
    ]


def run(members: list[dict[str, Any]], rounds: int = 60, **more: Any) -> dict[str, Any]:
    current = {
        "round": 7, "step": 67, "roster": [one["id"] for one in members], "witnesses": [f"m{i:03d}" for i in range(5)],
        "attested": ["m000", "m002", "m003"], "results": 6,
        "assignments": [work(i, committed=i not in (4, 6), attempt=2 if i == 6 else 1) for i in range(8)],
    }  # fmt: skip
    return {
        "run": "digits", "kind": "witnessed", "phase": "RoundTrain", "entry": 1234, "term": 2, "host": "box-1",
        "address": "tcp://x", "left_s": 4.2, "epoch": 3, "round": 7, "step": 67, "total_steps": 400, "here": 8,
        "min_clients": 4, "quorum": 4, "reason": "", "members": members, "sealed": sealed(rounds), "current": current,
        "account": {"applied": 1072, "open": 64, "waiting": 2, "skipped": 0},
        "checkpoint": {"source": "stored", "step": 60, "model": "", "digest": "", "size_bytes": 9, "holders": []},
        "explanation": {"sentence": "round 7 of epoch 3: 6 of 8 results are in", "waits": []},
    } | more  # fmt: skip


def printed(shown: dict[str, Any], width: int = 100, height: int | None = None, trouble: str = "") -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height or 200, highlight=False)
    console.print(page(shown, height, trouble=trouble))
    return out.getvalue().splitlines()


FEW = run([member(i) for i in range(8)])


@pytest.mark.parametrize(("width", "height"), [*product((40, 60, 80, 140), (12, 24, 40, 60))])
def test_any_number_of_members_fits_any_terminal(width: int, height: int) -> None:
    for count in (0, 8, 300):
        shown = run([member(i, "Lost" if i > 290 else "InStep", reason="silent " * 30) for i in range(count)])
        shown["explanation"]["sentence"] = "many words " * 90
        lines = printed(shown, width, height, "the coordinator is gone")
        assert len(lines) <= height
        assert max(len(line) for line in lines) <= width
        assert "digits" in lines[0]
        assert "the coordinator is gone" in "".join(lines[:4])


def test_the_phase_has_its_countdown_and_the_round_says_who_attested_and_what_is_missing() -> None:
    lines = printed(FEW)
    assert lines[0].startswith("digits  RoundTrain  4.2 s left")
    assert lines[1].startswith("epoch 3, round 7  step 67 of 400")
    text = "\n".join(lines)
    assert "results 6 of 8  attested by 3 of 5 witnesses, 4 are a quorum" in text
    assert "attested: m000, m002, m003" in text
    assert "missing: results of m004, m006; attestations of m001, m004" in text
    assert "batches: 1,072 applied, 64 open, 2 waiting, 0 skipped  checkpoint: stored, step 60" in text


def test_why_batches_were_skipped_is_said() -> None:
    skips = {"skipped": 7, "reasons": {"failed 5 times": 4, "the run ended": 3}}
    text = "\n".join(printed(FEW | {"account": FEW["account"] | skips}, width=160))
    assert "7 skipped (4 failed 5 times, 3 the run ended)" in text


def row(lines: list[str], name: str) -> list[str]:
    return next(line for line in lines if line.startswith(name)).split()


def test_members_are_shown_with_their_health_their_strikes_and_what_they_do() -> None:
    members = [member(i) for i in range(6)]
    members[3] |= {"strikes": 2, "score": 1}
    members[5] |= {"stuck_s": 130.0}
    members += [member(6, "Resyncing", score=None, of=None), member(7, "Removed", reason="2 bad rounds in a row")]
    lines = printed(run(members), 120)
    assert row(lines, "m003")[:4] == ["m003", "InStep", "1/5", "2"]
    assert row(lines, "m000")[:4] == ["m000", "InStep", "4/5", "1000"]
    assert "attested" in row(lines, "m000")
    assert "awaited" in row(lines, "m001")
    assert " ".join(row(lines, "m006")).endswith("trains (attempt 2) accuracy 0.91")
    assert " ".join(row(lines, "m005")).endswith("stuck for 2.2 min")
    assert " ".join(row(lines, "m007")).endswith("2 bad rounds in a row")
    assert lines[-1] == "8 members: 6 InStep, 1 Resyncing, 1 Removed"


def test_those_that_are_in_trouble_or_missed_come_first_and_those_that_are_gone_last() -> None:
    members = [member(i) for i in range(8)]
    members[2] |= {"state": "Lost"}
    members[7] |= {"strikes": 1}
    order = [line.split()[0] for line in printed(run(members)) if line.startswith("m0")]
    assert order == ["m007", "m001", "m004", "m006", "m000", "m003", "m005", "m002"]
    assert {"Lost", "Removed", "Left", "Done"} <= GONE


def test_the_loss_is_a_curve_where_there_is_room_and_a_line_where_there_is_not() -> None:
    tall, low = printed(FEW, 100, 50), printed(FEW, 100, 22)
    assert sum("│" in line or "┤" in line for line in tall) == CURVE_LINES
    assert not any("│" in line for line in low)
    assert any(line.startswith("loss  █") for line in low)
    assert any(line.endswith(" 0.3044") for line in low)
    assert not any("loss" in line for line in printed(run([member(0)], rounds=0)))


def test_without_a_round_and_without_members_there_is_still_a_page() -> None:
    shown = run([], rounds=0, current=None, phase="WaitingForMembers", left_s=None, account={}, checkpoint=None)
    lines = printed(shown, 80, 24)
    assert lines[0].startswith("digits  WaitingForMembers  entry")
    assert not any("attested" in line for line in lines)
    brief = {"run": "digits", "kind": "witnessed", "explanation": {"sentence": "box does", "waits": []}}
    assert "box does" in printed(brief)[2]


@pytest.mark.parametrize("text", ["\x1b[2Jgone", "\x07bell", "a\rb", "[bold]b[/]", "\u202eback"])
def test_what_others_wrote_moves_no_cursor_and_is_no_markup(text: str) -> None:
    shown = run([member(0, id=text, reason=text, metrics={text: 1.0}), member(1, "Lost", reason=text)])
    shown["current"]["witnesses"] = shown["current"]["attested"] = [text]
    shown["run"] = shown["phase"] = shown["explanation"]["sentence"] = text
    written = "\n".join(printed(shown, 200))
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(written)
    assert text.count("[bold]") == 0 or "[bold]b[/]" in written
