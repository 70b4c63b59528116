"""The witnessed demonstration with real processes, and its judge, who believes nothing."""

from __future__ import annotations

from statistics import mean
from typing import Any

from tests.sdk.assigned import assigned

from quoracy.demo import demo_witnessed
from quoracy.demo.witnessed import BATCHES, DIES, LATE, MEMBERS, RUN, SLOW, STEPS, Outcome, _judge, as_one
from quoracy.report import Report


def missed(report: Report) -> set[str]:
    return {figure.name for figure in report.measurements if figure.met() is False}


def test_the_witnessed_demo_survives_its_misfortunes() -> None:
    said: list[str] = []
    report, outcome = demo_witnessed(lambda what, _step: said.append(what))
    assert report.failures == []
    assert missed(report) - {"demo_s", "caught_up_with_step"} == set()
    (caught_up,) = [figure.value for figure in report.measurements if figure.name == "caught_up_with_step"]
    assert caught_up < STEPS, "it came back; in the same epoch, if its process starts before that is over"
    models = {told["model"] for told in outcome.told.values()}
    assert models == {outcome.shown["checkpoint"]["model"]}
    assert len(outcome.told) == len(MEMBERS)
    assert sum("killed" in what for what in said) == 2
    speeds = {member["id"]: member["speed"] for member in outcome.shown["members"]}
    assert speeds[SLOW] == min(speeds.values()), "the slow one is seen to be slow"
    given = {name: mean(batches[2:]) for name, batches in assigned(outcome.journal, RUN).items()}
    assert given[SLOW] < 0.8 * min(batches for name, batches in given.items() if name != SLOW), "and given less"


class Told:
    recovered_s = 1.0
    killed = True


MODEL = "ab" * 32


def judge(killed: bool = True, took_s: float = 30.0, **changes: Any) -> Report:
    shown: dict[str, Any] = {
        "step": STEPS, "next_batch": 600, "checkpoint": {"model": MODEL},
        "account": {"applied": 600, "skipped": 0, "waiting": 0, "open": 0, "trained": 603, "moved": 3, "again": 0},
        "members": [{"id": name, "incarnation": 2 if name == DIES else 1} for name in MEMBERS],
    }  # fmt: skip
    told: dict[str, dict[str, Any]] = {
        name: {"model": MODEL, "ended": "finished", "metrics": {"accuracy": 0.95}, "loaded": ["made"]}
        for name in MEMBERS
    }
    told[LATE]["loaded"] = ["model of step 20 from the others in 0.1 s"]
    told[DIES]["loaded"] = ["model of step 7 from the others in 0.1 s"]
    for name, change in changes.items():
        if name in ("account", "checkpoint"):
            shown[name] |= change
        elif name in shown:
            shown[name] = change
        else:
            told[f"member-{name[-1]}"] |= change
    story: Any = Told()
    story.killed = killed
    return _judge(story, Outcome(shown, told, 0.955), took_s)


def test_the_judge_of_the_demo_believes_nothing() -> None:
    assert judge().ok()
    assert "does not add up" in judge(account={"open": 1}).failures[0]
    assert "was not killed" in judge(killed=False).failures[0]
    once = [{"id": name, "incarnation": 1} for name in MEMBERS]
    assert "knows 1 lives" in judge(members=once).failures[0]
    assert "did not see the end" in judge(m4={"ended": "unreachable"}).failures[0]
    assert "did not get its model from the others" in judge(m5={"loaded": []}).failures[0]


def test_the_judge_of_the_demo_measures_what_is_claimed() -> None:
    assert missed(judge(step=STEPS - 1)) == {"steps"}
    assert missed(judge(m1={"model": "cd" * 32})) == {"members_with_the_same_model"}
    assert missed(judge(m1={"metrics": {"accuracy": 0.9449}})) == {"accuracy"}
    assert missed(judge(account={"applied": 599, "skipped": 1})) == {"batches_applied", "batches_skipped"}
    assert missed(judge(account={"moved": 0})) == {"batches_reassigned"}
    assert missed(judge(took_s=60.1)) == {"demo_s"}
    for loaded in (["model of step 20 from the others in 0.1 s"], []):
        assert missed(judge(m3={"loaded": loaded})) == {"caught_up_with_step"}


def test_one_machine_is_given_the_same_batches() -> None:
    rounds = as_one(597)
    assert [batch for batches in rounds for batch in batches] == list(range(597))
    assert {len(batches) for batches in rounds} == {BATCHES, 7}
