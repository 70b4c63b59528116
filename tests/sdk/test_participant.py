"""What a participant can do, and what it is told. A real coordinator on a thread, real heartbeat processes."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from tests.sdk.live import PATIENCE_S, free_port, wait_for

import quoracy
from quoracy.coordinator import Coordinator
from quoracy.learn.packed import Packed
from quoracy.learn.tensors import digest_of, save
from quoracy.objects import open_objects
from quoracy.sdk.federated.arrays import load, pack

QUICK = {"heartbeat_interval_s": 0.1, "heartbeat_timeout_s": 2.0, "clients": 1, "rounds": 2}
Weights = dict[str, Any]


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with Coordinator(tmp_path_factory.mktemp("coordinator")) as running:
        yield running


def start() -> Weights:
    return {"a": np.zeros((2, 3), np.float32), "n": np.zeros((), np.int64)}


def once(weights: Weights, _task: quoracy.Task) -> tuple[Weights, int, dict[str, float]]:
    weights["a"] += 1
    return weights, 10, {"loss": 0.5}


class Stage:
    """A run of its own for each test, and threads to take part in."""

    def __init__(self, coordinator: Coordinator, run: str, cache: Path) -> None:
        self.coordinator = coordinator
        self.run = run
        self.cache = cache
        self._threads = ThreadPoolExecutor(8)

    def create(self, **config: Any) -> None:
        self.coordinator.create(self.run, "federated", **QUICK | config)

    def take_part(self, train: Callable[..., Any] = once, name: str = "p1", **more: Any) -> quoracy.Summary:
        given: dict[str, Any] = {"initial": start, "weights": "store", "cache": self.cache} | more
        return quoracy.participate(self.coordinator.url, train, self.run, participant=name, **given)

    def later(self, *arguments: Any, **named: Any) -> Future[quoracy.Summary]:
        return self._threads.submit(self.take_part, *arguments, **named)

    def ask(self, what: str, **arguments: Any) -> Any:
        return self.coordinator.ask(what, self.run, **arguments)

    def shown(self, name: str = "p1") -> dict[str, Any]:
        found = [one for one in self.coordinator.show(self.run)["participants"] if one["id"] == name]
        return found[0] if found else {}

    @property
    def store(self) -> str:
        return str(self.ask("weights")["store"])

    @property
    def blobs(self) -> Path:
        return Path(self.store.removeprefix("file://"), self.ask("weights")["prefix"], "blobs")

    def model(self) -> Weights:
        return load(self.blobs / self.coordinator.show(self.run)["weights"]).arrays

    def events(self, sort: str) -> list[dict[str, Any]]:
        entries = self.ask("journal", limit=1000)["entries"]
        return [event for entry in entries for event in entry["events"] if event["type"] == sort]


@pytest.fixture
def stage(coordinator: Coordinator, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(coordinator, request.node.name.partition("[")[0][:100] + f"-{id(request)}", tmp_path / "cache")
    yield made
    made._threads.shutdown()


# -- the plain case ------------------------------------------------------------------------------------------------


def test_two_participants_train_together_and_the_model_is_the_mean_by_samples(stage: Stage) -> None:
    stage.create(clients=2)
    steps = {"p1": (1.0, 30), "p2": (5.0, 10)}

    def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, dict[str, Any]]:
        step, samples = steps[task.participant]
        return {"a": weights["a"] + np.float32(step), "n": weights["n"] + 1}, samples, {"loss": step}

    summaries = [future.result(PATIENCE_S) for future in [stage.later(train, name) for name in steps]]
    assert [(s.trained, s.admitted, s.refused, s.ended, s.reason) for s in summaries] == [
        (2, 2, (), "finished", "all rounds")
    ] * 2
    assert np.all(stage.model()["a"] == 4.0), "(30 * 1 + 10 * 5) / 40, twice"
    assert stage.model()["n"].dtype == np.int64
    assert stage.shown("p1")["state"] == "Done"


def test_a_task_says_what_to_train(stage: Stage) -> None:
    stage.create(epochs=3, hyper={"lr": 0.5}, hyper_steps=[{"round": 1, "hyper": {"lr": 0.25}}])
    tasks: list[quoracy.Task] = []

    def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, None]:
        tasks.append(task)
        return weights, 1, None

    stage.take_part(train, dataset="here")
    seen = [(t.run, t.participant, t.round, t.rounds, t.epochs, t.epoch_base, dict(t.hyper), t.dataset) for t in tasks]
    assert seen == [
        (stage.run, "p1", 0, 2, 3, 0, {"lr": 0.5}, "here"),
        (stage.run, "p1", 1, 2, 3, 3, {"lr": 0.25}, "here"),
    ]


def test_metrics_and_history_are_kept_without_what_is_no_number(stage: Stage) -> None:
    """In the journal, and when the round is over: as they were said, with a warning for each that is left out."""
    stage.create(rounds=1)
    news: list[Any] = []

    def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, dict[str, Any]]:
        for epoch, loss in enumerate((0.5, float("nan"), 0.25)):
            task.epoch(epoch, loss=loss)
        return (
            weights,
            7,
            {"loss": np.float32(0.25), "confusion": np.eye(2), "odd": float("inf"), "nans": [0.0, float("nan")]},
        )

    assert stage.take_part(train, on_news=news.append).admitted == 1
    (offer,) = [event for event in stage.events("update-offered") if event["round"] == 0]
    assert (offer["samples"], offer["history"]) == (7, {"loss": [0.5, 0.25]})
    assert offer["metrics"] == {"loss": 0.25, "confusion": {"shape": (2, 2), "values": [1.0, 0.0, 0.0, 1.0]}}
    told = stage.ask("reports", member="p1")
    (report,) = told["rounds"]
    assert (report["round"], report["fate"], report["samples"]) == (0, "Admitted", 7)
    assert report["metrics"] == {"loss": 0.25, "confusion": [[1.0, 0.0], [0.0, 1.0]]}
    assert report["history"] == {"loss": [0.5, 0.25]}
    assert [warning.split(" is left out")[0] for warning in report["warnings"]] == [
        "loss: nan", "metrics.odd", "metrics.nans",
    ]  # fmt: skip
    warned = [one.text.split(" is left out")[0] for one in news if one.what == "warning"]
    assert warned == ["round 0: metrics.odd", "round 0: metrics.nans"]
    assert stage.shown()["last"]["metrics"] == {"loss": 0.25}
    assert stage.coordinator.show(stage.run)["history"][0]["metrics"]["confusion"] == [[1.0, 0.0], [0.0, 1.0]]
    assert stage.shown()["updates"] == 1, "the initial weights are no update"


def test_metrics_that_are_large_are_an_object_beside_the_update(stage: Stage) -> None:
    stage.create(rounds=1, max_metrics_bytes=10_000)
    confusion = np.arange(30.0 * 30).reshape(30, 30).astype(np.float32)

    def train(weights: Weights, _task: quoracy.Task) -> tuple[Weights, int, dict[str, Any]]:
        return weights, 7, {"loss": 0.25, "confusion": confusion, "counts": np.arange(300)}

    assert stage.take_part(train).admitted == 1
    (report,) = stage.ask("reports", member="p1")["rounds"]
    assert (report["metrics"], report["warnings"]) == ({"loss": 0.25}, [])
    assert report["arrays"]["shapes"] == {"confusion": [30, 30], "counts": [300]}
    kept = load(stage.blobs.parent / "metrics" / "0" / "p1").arrays
    assert np.array_equal(kept["confusion"], confusion)
    assert digest_of(stage.blobs.parent / "metrics" / "0" / "p1") == report["arrays"]["digest"]


def test_metrics_that_are_too_large_cost_nothing_but_themselves(stage: Stage) -> None:
    stage.create(rounds=1, max_metrics_bytes=1000)
    news: list[Any] = []

    def train(weights: Weights, _task: quoracy.Task) -> tuple[Weights, int, dict[str, Any]]:
        return weights, 7, {"loss": 0.25, "huge": np.zeros(1000)}

    assert stage.take_part(train, on_news=news.append).admitted == 1
    (report,) = stage.ask("reports", member="p1")["rounds"]
    assert (report["metrics"], report["fate"], report["arrays"]["shapes"]) == ({"loss": 0.25}, "Admitted", {})
    assert "at most 1000 are taken (max_metrics_bytes)" in report["warnings"][0]
    told = f"round 0: told by the coordinator: {report['warnings'][0]}"
    assert [one.text for one in news if one.what == "warning"] == [told]


def test_progress_and_epochs_are_in_the_heartbeats(stage: Stage) -> None:
    stage.create(rounds=1, stuck_after_s=0.2)
    go_on = threading.Event()

    def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, None]:
        assert go_on.wait(PATIENCE_S)
        while stage.shown()["stuck_s"]:
            task.progress(metrics={"loss": 0.5})
        return weights, 1, None

    future = stage.later(train)
    wait_for(lambda: stage.shown().get("stuck_s"), "it does nothing, and beats")
    go_on.set()
    assert future.result(PATIENCE_S).admitted == 1


def test_every_round_may_measure_other_things(stage: Stage) -> None:
    """A heartbeat has room for sixteen."""
    stage.create()

    def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, None]:
        task.progress(metrics={f"round_{task.round}_{number}": 1.0 for number in range(16)})
        for _ in range(2):
            before = stage.shown()["silent_s"]
            wait_for(lambda: stage.shown()["silent_s"] < before, "a heartbeat with all of them was taken in")  # noqa: B023
        return weights, 1, None

    assert stage.take_part(train).admitted == 2
    assert (stage.shown()["losses"], stage.shown()["incarnation"]) == (0, 1)


def test_a_callback_that_fails_costs_no_training(stage: Stage) -> None:
    stage.create()
    assert stage.take_part(on_news=lambda news: 1 / 0).admitted == 2


def test_news_tells_every_round(stage: Stage) -> None:
    stage.create()
    news: list[quoracy.ParticipantNews] = []
    stage.take_part(on_news=news.append)
    kinds = [(one.what, one.round) for one in news if one.what not in ("joined", "standby")]
    rounds = [pair for n in (0, 1) for pair in (("round", n), ("trained", n), ("verdict", n))]
    assert kinds == [("round", -1), ("verdict", -1), *rounds, ("over", -1)]
    assert all(one.admitted for one in news if one.what == "verdict")


# -- weights -------------------------------------------------------------------------------------------------------


def test_arrays_may_be_changed_in_place_and_the_stored_model_stays_what_it_is(stage: Stage) -> None:
    stage.create(rounds=3)
    stage.take_part()
    assert np.all(stage.model()["a"] == 3.0)
    for blob in stage.blobs.iterdir():
        assert digest_of(blob) == blob.name


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda w: {"a": w["a"]}, "'n' is missing"),
        (lambda w: w | {"c": w["a"]}, "'c' is not in the model"),
        (lambda w: w | {"a": w["a"][:1]}, r"'a' has shape \(1, 3\), the model's is \(2, 3\)"),
        (lambda w: w | {"a": w["a"].astype(np.float64)}, "'a' has type F64, the model's is F32"),
        (lambda w: w | {"a": w["a"] * np.float32("nan")}, r"'a' of shape \(2, 3\) holds 6 numbers that are infinite"),
        (lambda w: w | {"a": w["a"].tolist()}, "'a' is a builtins.list"),
        (lambda w: w | {"a": w["a"].astype(object)}, "'a' of shape .* is of object"),
        (lambda w: w | {"a": w["a"].astype(np.complex128)}, "'a' of shape .* is of complex128"),
        (lambda w: w | {"a": w["a"].astype(np.complex64)}, "'a' has type C64, the model's is F32"),
        (lambda w: w | {7: w["a"]}, "called 7"),
    ],
)
def test_an_unfit_update_is_found_before_it_is_sent_and_names_the_tensor(
    stage: Stage, change: Callable[[Weights], Weights], named: str
) -> None:
    stage.create()
    with pytest.raises(quoracy.UnfitUpdate, match=named):
        stage.take_part(lambda weights, task: (change(weights), 1, {}))
    assert [event["round"] for event in stage.events("update-offered")] == [-1], "nothing but the initial weights"
    assert stage.shown()["state"] == "Left"


@pytest.mark.parametrize(
    ("returned", "named"),
    [
        (None, "train returned NoneType"),
        (({}, 1, {}), "train returned dict as weights"),
        (([1], 1, {}), "train returned list as weights"),
        (({"a": np.zeros(1)}, 0, {}), "samples = 0"),
        (({"a": np.zeros(1)}, "many", {}), "samples = 'many'"),
    ],
)
def test_what_a_trainer_must_return_is_said_if_it_does_not(stage: Stage, returned: Any, named: str) -> None:
    stage.create()
    with pytest.raises(quoracy.UnfitUpdate, match=named):
        stage.take_part(lambda weights, task: returned)


def test_initial_weights_that_are_none_are_said(stage: Stage) -> None:
    stage.create()
    with pytest.raises(quoracy.UnfitUpdate, match="initial gave NoneType"):
        stage.take_part(initial=lambda: None)


def test_correction_7_a_model_that_is_a_pickle_is_not_opened(stage: Stage, tmp_path: Path) -> None:
    poison = tmp_path / "poison"
    poison.write_bytes(pickle.dumps({"a": [1.0, 2.0]}))
    digest = digest_of(poison)
    stage.create(initial=digest)
    with closing(open_objects(stage.store)) as objects:
        objects.put_file(f"{stage.ask('weights')['prefix']}/blobs/{digest}", poison, digest)
    stage.ask("resume")
    with pytest.raises(quoracy.WeightsFailed, match="a pickle, which can run any code"):
        stage.take_part()


def test_correction_7_an_update_that_is_a_pickle_is_refused_and_its_sender_quarantined(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.create()

    def pickled(arrays: Any, like: Any, *more: Any) -> Packed:
        packed = pack(arrays, like, *more)
        if like is not None:
            content = pickle.dumps(dict(arrays))
            packed.size_bytes, packed.digest = len(content), blake3(content).hexdigest()
            packed.pieces = lambda begin=0: iter([memoryview(content)[begin:]])  # type: ignore[method-assign]
        return packed

    monkeypatch.setattr("quoracy.sdk.federated.participant.pack", pickled)
    with pytest.raises(quoracy.Quarantined, match="pickle"):
        stage.take_part()
    assert stage.shown()["state"] == "Quarantined"


def test_a_model_that_is_not_what_its_digest_says_is_not_trained_from(stage: Stage, tmp_path: Path) -> None:
    digest = save(tmp_path / "good", start())
    stage.create(initial=digest)
    stage.blobs.mkdir(parents=True)
    save(stage.blobs / digest, {"a": np.ones((2, 3), np.float32), "n": np.zeros((), np.int64)})
    stage.ask("resume")
    with pytest.raises(quoracy.WeightsFailed, match="not what its digest says"):
        stage.take_part()


def test_bf16_comes_as_float32_and_goes_back_as_bf16(stage: Stage, tmp_path: Path) -> None:
    digest = save(tmp_path / "short", {"a": np.ones(4, np.float32)}, codes={"a": "BF16"})
    stage.create(initial=digest, rounds=1)
    stage.blobs.mkdir(parents=True)
    save(stage.blobs / digest, {"a": np.ones(4, np.float32)}, codes={"a": "BF16"})
    stage.ask("resume")
    seen: list[Any] = []

    def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, None]:
        seen.append(weights["a"].dtype)
        return {"a": weights["a"] + np.float32(1)}, 1, None

    assert stage.take_part(train).admitted == 1
    assert seen == [np.float32]
    made = load(stage.blobs / stage.coordinator.show(stage.run)["weights"])
    assert (made.layout["a"][0], made.arrays["a"].tolist()) == ("BF16", [2.0] * 4)


# -- being told no -------------------------------------------------------------------------------------------------


def test_check_false_sends_it_all_the_same_and_quarantine_says_why(stage: Stage) -> None:
    stage.create()
    with pytest.raises(quoracy.Quarantined, match="shape") as error:
        stage.take_part(lambda weights, task: (weights | {"a": weights["a"][:1]}, 1, {}), check=False)
    assert error.value.code == "quarantined"


def test_a_refused_update_is_told_with_its_reason_and_the_next_round_is_another_chance(stage: Stage) -> None:
    stage.create(refused_max=5, clients=2, count_min=1)

    def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, None]:
        if task.round == 0 and task.participant == "p1":
            return weights | {"a": weights["a"][:1]}, 1, None
        return weights, 1, None

    one, two = stage.later(train, "p1", check=False), stage.later(train, "p2")
    summary = one.result(PATIENCE_S)
    assert two.result(PATIENCE_S).admitted == 2
    assert (summary.trained, summary.admitted, summary.refused[0][0]) == (2, 1, 0)
    assert "shape" in summary.refused[0][1]


def test_a_participant_that_comes_while_there_is_no_room_waits_until_there_is(stage: Stage) -> None:
    stage.create(max_participants=1)
    go_on = threading.Event()

    def train(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, None]:
        assert go_on.wait(PATIENCE_S)
        raise ValueError("enough")

    first = stage.later(train, "p1")
    wait_for(lambda: stage.shown("p1").get("state") == "Training", "the first is in")
    told: list[str] = []
    second = stage.later(name="p2", on_news=lambda news: told.append(news.what))
    wait_for(lambda: "later" in told, "the second is told to come later")
    go_on.set()
    with pytest.raises(ValueError, match="enough"):
        first.result(PATIENCE_S)
    assert second.result(PATIENCE_S).admitted == 2


def test_a_round_that_goes_on_without_a_participant_tells_it(stage: Stage) -> None:
    stage.create(clients=2, count_min=1, count_max=1, rounds=1)
    began, seen = threading.Event(), threading.Event()

    def slow(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, None]:
        began.set()
        wait_for(task.dropped, "the round has gone on")
        seen.set()
        return weights, 1, None

    def fast(weights: Weights, task: quoracy.Task) -> tuple[Weights, int, None]:
        wait_for(began.is_set, "the other trains too")
        return weights, 1, None

    one, two = stage.later(slow, "slow"), stage.later(fast, "fast")
    assert two.result(PATIENCE_S).admitted == 1
    summary = one.result(PATIENCE_S)
    assert seen.is_set()
    assert (summary.trained, summary.admitted, summary.refused[0][0], summary.ended) == (1, 0, 0, "finished")


# -- coming and going ----------------------------------------------------------------------------------------------


def test_nobody_there_for_give_up_s_raises_what_was_tried(stage: Stage) -> None:
    with pytest.raises(quoracy.Unreachable, match=r"give_up_s = 0\.5"):
        quoracy.participate(f"tcp://127.0.0.1:{free_port()}", once, "run", participant="p1", give_up_s=0.5)


def test_a_run_that_is_not_there_yet_is_waited_for(stage: Stage) -> None:
    told: list[str] = []
    future = stage.later(on_news=lambda news: told.append(news.what), wait=True)
    wait_for(lambda: "later" in told, "it is told that there is no such run")
    stage.create()
    assert future.result(PATIENCE_S).admitted == 2


def test_a_run_of_another_kind_is_refused(stage: Stage) -> None:
    stage.coordinator.create(stage.run)
    with pytest.raises(quoracy.WorkerError):
        stage.take_part()


def test_a_run_that_is_over_ends_at_once(stage: Stage) -> None:
    stage.create()
    stage.take_part()
    again = stage.take_part(name="p2")
    assert (again.ended, again.trained) == ("finished", 0)


def test_a_run_that_an_operator_stops_ends_a_participant_which_says_why(stage: Stage) -> None:
    stage.create(clients=2)
    future = stage.later()
    wait_for(lambda: stage.shown().get("state") == "Waiting", "it waits for another")
    stage.ask("stop", reason="enough for today")
    summary = future.result(PATIENCE_S)
    assert (summary.ended, summary.reason) == ("finished", "enough for today")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"train": None}, "train"),
        ({"initial": True}, "initial"),
        ({"initial": 7}, "initial"),
        ({"weights": "pigeon"}, "weights"),
        ({"store": "ftp://x"}, "store"),
        ({"store": "/tmp/x", "weights": "http"}, "store"),
        ({"participant": "a b"}, "member"),
        ({"labels": {"a": "b" * 300}}, "labels, initial"),
        ({"drain_s": 0}, "drain_s"),
        ({"model": 7}, "model"),
    ],
)
def test_wrong_settings_are_named(stage: Stage, given: dict[str, Any], field: str) -> None:
    stage.create()
    settings: dict[str, Any] = {"train": once, "participant": "p1", "cache": stage.cache} | given
    with pytest.raises(quoracy.ConfigError) as error:
        quoracy.participate(stage.coordinator.url, run=stage.run, **settings)
    assert error.value.field == field
