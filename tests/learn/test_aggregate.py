"""Updates in, the next model out: the same bytes for the same updates, and a reason where there is no model."""

from __future__ import annotations

import resource
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pytest
from tests.learn.models import Arrays, made, update

from quoracy.core.federated import aggregation as rules
from quoracy.core.federated.aggregation import Aggregation
from quoracy.learn import CannotAggregate, Rule, Slice, Update, aggregate, digest_of, load, save
from quoracy.learn.aggregate import HELD_OPEN
from quoracy.learn.slices import width

EVERY: list[Any] = [
    rules.FedAvg(), rules.FedAvgM(), rules.FedAdam(), rules.FedYogi(), rules.FedAdagrad(), rules.FedProx(),
    rules.Median(), rules.TrimmedMean(2), rules.Krum(), rules.MultiKrum(), rules.Bulyan(),
    rules.Own("tests.learn.test_aggregate:Midrange"),
]  # fmt: skip
AVERAGING = EVERY[:6]
SLOWLY = rules.Own("tests.learn.test_aggregate:Slowly", {"part": 0.5})


class Midrange(Rule):
    """As small as a rule can be."""

    def merge(self, piece: Slice) -> Any:
        return (piece.rows.min(axis=0) + piece.rows.max(axis=0)) / 2


class Slowly(Rule):
    """Goes a part of the way, and counts its rounds."""

    keeps = ("rounds",)

    def __init__(self, part: float) -> None:
        self.part = part

    def begins(self) -> dict[str, float]:
        return {"rounds": 10.0}

    def merge(self, piece: Slice) -> Any:
        piece.state["rounds"] += 1
        return piece.previous + self.part * (piece.rows.mean(axis=0) - piece.previous)


class Chooses(Rule):
    """Merges the updates at some places only."""

    surveys = True

    def __init__(self, places: Any) -> None:
        self.places = places

    def decide(self) -> Any:
        return self.places

    def merge(self, piece: Slice) -> Any:
        return piece.rows.sum(axis=0)


class Broken(Rule):
    def __init__(self, how: str) -> None:
        self.how = how

    def merge(self, piece: Slice) -> Any:
        if self.how == "raises":
            raise KeyError("no such thing")
        if self.how == "state":
            piece.state["kept"] = piece.previous[:-1]
            return piece.previous
        return {"shape": piece.previous[:-1], "type": "text", "complex": piece.previous + 1j}[self.how]


class Forgets(Broken):
    keeps = ("kept",)


def name(settings: Any) -> str:
    return str(settings.__struct_config__.tag)


def model(seed: int) -> dict[str, Any]:
    dice = np.random.default_rng(seed)
    return {
        "dense/kernel": dice.standard_normal((30, 7)).astype(np.float32),
        "dense/bias": dice.standard_normal(7).astype(np.float64),
        "half": dice.standard_normal(5).astype(np.float16),
        "steps": dice.integers(0, 1000, 3),
        "mask": dice.integers(0, 2, 4).astype(bool),
        "empty": np.zeros((0, 3), np.float32),
    }


def updates_of(folder: Path, count: int = 9) -> list[Update]:
    return [update(folder, f"p{number}", model(number), 10 + number) for number in range(count)]


@pytest.mark.parametrize("settings", EVERY, ids=name)
def test_the_order_of_arrival_does_not_matter(settings: Aggregation, tmp_path: Path) -> None:
    files = updates_of(tmp_path)
    orders = [files, files[::-1], files[4:] + files[:4], files[::2] + files[1::2]]
    results = [made(tmp_path, settings, order, model(99)) for order in orders]
    assert len({result.digest for result in results}) == 1
    assert len({result.state_digest for result in results}) == 1


@pytest.mark.parametrize("settings", EVERY, ids=name)
def test_what_is_said_of_the_result_is_true(settings: Aggregation, tmp_path: Path) -> None:
    result = made(tmp_path, settings, updates_of(tmp_path), model(99))
    assert result.digest == digest_of(result.weights)
    assert result.size_bytes == result.weights.stat().st_size
    merged = load(result.weights)
    assert {name: (a.shape, a.dtype) for name, a in merged.items()} == {
        name: (a.shape, a.dtype) for name, a in model(0).items()
    }
    assert all(np.isfinite(array).all() for array in merged.values())
    if result.state is None:
        assert result.state_digest == ""
    else:
        assert result.state_digest == digest_of(result.state)


def half_frozen(frozen: Arrays, seed: int) -> Arrays:
    """Of every tensor the odd numbers as they were, the even ones trained."""
    dice = np.random.default_rng(seed)
    moved = {name: array + dice.standard_normal(array.shape).astype(array.dtype) for name, array in frozen.items()}
    return {name: np.where(np.arange(array.size) % 2, array, moved[name]) for name, array in frozen.items()}


@pytest.mark.parametrize("settings", EVERY[:-1], ids=name)
def test_what_nobody_trained_stays_as_it_was_to_the_bit(settings: Aggregation, tmp_path: Path) -> None:
    """Round after round, also where it stands between numbers that are trained, and a zero keeps its sign."""
    dice = np.random.default_rng(7)
    begun: Arrays = {code: dice.standard_normal(2000).astype(code) for code in ("f2", "f4", "f8", "c8")}
    begun["f4"][1::50] = -0.0
    begun["f8"][1::50] = -0.0
    global_, state = begun, None
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        folder = tmp_path / str(number)
        files = [update(folder, f"p{n:02}", half_frozen(global_, 20 * number + n), 3 + 7 * n) for n in range(13)]
        result = made(folder, settings, files, global_, state)
        global_, state = {name: array.copy() for name, array in load(result.weights).items()}, result.state
    for code, array in begun.items():
        assert global_[code][1::2].tobytes() == array[1::2].tobytes(), code
        assert (global_[code][::2] != array[::2]).any(), "the others are trained"


def test_two_updates_of_one_participant_are_refused(tmp_path: Path) -> None:
    files = updates_of(tmp_path, 3)
    with pytest.raises(CannotAggregate, match="two updates of p1"):
        made(tmp_path, rules.FedAvg(), [*files, files[1]], model(99))


def changed(**arrays: Any) -> Arrays:
    return {**model(1), **arrays}


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ({"half": model(0)["half"]}, "the update of p1: tensor 'dense/bias' is missing"),
        (changed(more=np.zeros(1)), "the update of p1: tensor 'more' is not in the model"),
        (changed(half=np.zeros(5, np.float32)), "the update of p1: tensor 'half' has type F32, the model's is F16"),
        (changed(half=np.zeros(6, np.float16)), r"the update of p1: tensor 'half' has shape \(6,\), the model's is"),
    ],
)
def test_another_layout_than_the_models_is_refused(arrays: Arrays, why: str, tmp_path: Path) -> None:
    files = [update(tmp_path, "p0", model(0)), update(tmp_path, "p1", arrays)]
    with pytest.raises(CannotAggregate, match=why):
        made(tmp_path, rules.FedAvg(), files, model(99))


@pytest.mark.parametrize(
    ("settings", "count", "why"),
    [
        (rules.FedAvg(), 0, "no updates"),
        (rules.Krum(2), 6, r"Krum needs 2 \* 2 \+ 3 = 7 updates, there are 6"),
        (rules.MultiKrum(1, 7), 9, r"at most 9 - 1 - 2 = 6 are kept, not 7"),
        (rules.Bulyan(1), 6, r"Bulyan needs 4 \* 1 \+ 3 = 7 updates, there are 6"),
        (rules.TrimmedMean(3), 6, "leaves none of 6 updates"),
    ],
)
def test_too_few_updates_for_the_rule_are_refused(settings: Any, count: int, why: str, tmp_path: Path) -> None:
    with pytest.raises(CannotAggregate, match=why):
        made(tmp_path, settings, updates_of(tmp_path, count), model(99))


@pytest.mark.parametrize(
    ("samples", "why"), [(0, "0 samples in all"), (-1, "the update of p0 was trained on -1 samples")]
)
def test_samples_that_make_no_weights_are_refused(samples: int, why: str, tmp_path: Path) -> None:
    with pytest.raises(CannotAggregate, match=why):
        made(tmp_path, rules.FedAvg(), [update(tmp_path, "p0", model(0), samples)], model(99))


def test_numbers_that_grow_beyond_their_type_are_refused(tmp_path: Path) -> None:
    files = [update(tmp_path, "p0", {"x": np.array([60000], np.float16)})]
    with pytest.raises(CannotAggregate, match="tensor 'x' would not be finite"):
        made(tmp_path, rules.FedAvgM(server_lr=2), files, {"x": np.array([0], np.float16)})


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "p0").write_bytes(b"\x80\x04" + bytes(100))
    with pytest.raises(CannotAggregate, match="the update of p0: this is a pickle"):
        made(tmp_path, rules.FedAvg(), [Update("p0", tmp_path / "p0", 1)], model(99))


@pytest.mark.parametrize("settings", [rules.FedAvg(), rules.FedAdam(), SLOWLY], ids=name)
def test_integers_are_the_rounded_mean_of_rules_that_average(settings: Any, tmp_path: Path) -> None:
    def some(numbers: list[int], truth: list[bool]) -> Arrays:
        return {"n": np.array(numbers, np.uint8), "t": np.array(truth), "w": np.zeros(1, np.float32)}

    files = [
        update(tmp_path, "a", some([0, 1, 255], [True, True, False]), 1),
        update(tmp_path, "b", some([1, 2, 255], [True, False, False]), 1),
        update(tmp_path, "c", some([1, 3, 255], [True, False, True]), 2),
    ]
    merged = load(made(tmp_path, settings, files, some([9, 9, 9], [False] * 3)).weights)
    assert merged["n"].tolist() == [1, 2, 255]
    assert merged["t"].tolist() == [True, False, False], "a majority, and false where there is none"


def test_integers_go_with_the_update_that_krum_chose(tmp_path: Path) -> None:
    places = [0.0, 1.0, 1.1, 1.25, 9.0]
    files = [
        update(tmp_path, f"p{n}", {"w": np.array([x]), "steps": np.array([n * 10**6])}) for n, x in enumerate(places)
    ]
    merged = load(made(tmp_path, rules.Krum(1), files, {"w": np.zeros(1), "steps": np.array([0])}).weights)
    assert (merged["w"][0], merged["steps"][0]) == (1.1, 2 * 10**6)


def test_a_model_of_integers_alone_is_compared_by_them(tmp_path: Path) -> None:
    files = [update(tmp_path, f"p{n}", {"w": np.array([x], np.int8)}) for n, x in enumerate([0, 50, 51, 53, 100])]
    assert load(made(tmp_path, rules.Krum(1), files, {"w": np.zeros(1, np.int8)}).weights)["w"].tolist() == [51]


def test_bf16_is_averaged_as_float32_and_rounded_to_even(tmp_path: Path) -> None:
    layer = {"w": "BF16"}
    files = [
        update(tmp_path, "a", {"w": np.array([1.0, 2.0, 1.0], np.float32)}, codes=layer),
        update(tmp_path, "b", {"w": np.array([1.0, 4.0, 1.0078125], np.float32)}, codes=layer),
    ]
    save(tmp_path / "previous", {"w": np.zeros(3, np.float32)}, codes=layer)
    result = aggregate(rules.FedAvg(), files, tmp_path / "previous", None, tmp_path)
    assert load(result.weights)["w"].tolist() == [1.0, 3.0, 1.0]
    assert result.weights.stat().st_size == (tmp_path / "previous").stat().st_size


def test_a_rule_of_ones_own_is_one_small_class(tmp_path: Path) -> None:
    files = [
        update(tmp_path, n, {"w": np.array(w, np.float32)}) for n, w in (("a", [1, 5]), ("b", [3, 5]), ("c", [9, 5]))
    ]
    own = rules.Own("tests.learn.test_aggregate:Midrange")
    assert load(made(tmp_path, own, files, {"w": np.zeros(2, np.float32)}).weights)["w"].tolist() == [5, 5]


def test_a_rule_of_ones_own_may_choose_among_the_updates(tmp_path: Path) -> None:
    files = [update(tmp_path, n, {"w": np.array([w])}) for n, w in (("a", 1.0), ("b", 10.0), ("c", 100.0))]
    own = rules.Own("tests.learn.test_aggregate:Chooses", {"places": [0, 2]})
    assert load(made(tmp_path, own, files, {"w": np.zeros(1)}).weights)["w"].tolist() == [101.0]


def test_a_rule_of_ones_own_may_keep_something(tmp_path: Path) -> None:
    files = [update(tmp_path, "a", {"w": np.array([8.0, 4.0])})]
    first = made(tmp_path, SLOWLY, files, {"w": np.zeros(2)})
    second = made(tmp_path, SLOWLY, files, load(first.weights), first.state)
    assert load(second.weights)["w"].tolist() == [6.0, 3.0]
    assert second.state is not None
    assert load(second.state)["rounds/w"].tolist() == [12.0, 12.0]


@pytest.mark.parametrize(
    ("of", "settings", "why"),
    [
        ("tests.learn.nowhere:Midrange", {}, "cannot be had: ModuleNotFoundError"),
        ("tests.learn.test_aggregate:Nobody", {}, "cannot be had: AttributeError"),
        ("tests.learn.test_aggregate:model", {}, "is not a class derived from quoracy.learn.Rule"),
        ("tests.learn.test_aggregate:Slowly", {}, "Slowly.__init__ raised TypeError: .*'part'"),
        ("tests.learn.test_aggregate:Broken", {"how": "raises"}, "Broken.merge raised KeyError: 'no such thing'"),
        ("tests.learn.test_aggregate:Broken", {"how": "shape"}, r"merge returned float32\(1,\), wanted are .* \(2,\)"),
        ("tests.learn.test_aggregate:Broken", {"how": "type"}, "merge returned str"),
        ("tests.learn.test_aggregate:Broken", {"how": "complex"}, "merge returned complex"),
        ("tests.learn.test_aggregate:Forgets", {"how": "state"}, "merge left 'kept' in another shape"),
        ("tests.learn.test_aggregate:Chooses", {"places": [0, 1]}, r"the rule chose \[0, 1\] of 1 updates"),
        ("tests.learn.test_aggregate:Chooses", {"places": []}, r"the rule chose \[\] of 1 updates"),
        ("tests.learn.test_aggregate:Chooses", {"places": ["x"]}, "Chooses.decide raised TypeError"),
    ],
)
def test_what_is_wrong_with_a_rule_of_ones_own_is_said(
    of: str, settings: dict[str, Any], why: str, tmp_path: Path
) -> None:
    files = [update(tmp_path, "a", {"w": np.zeros(2, np.float32)})]
    with pytest.raises(CannotAggregate, match=why):
        made(tmp_path, rules.Own(of, settings), files, {"w": np.zeros(2, np.float32)})


def test_the_state_of_another_rule_or_model_is_refused(tmp_path: Path) -> None:
    files = updates_of(tmp_path, 3)
    kept = made(tmp_path, rules.FedAvgM(), files, model(99)).state
    with pytest.raises(
        CannotAggregate, match="state is not of this model under this rule: tensor 'mean/dense/bias' is"
    ):
        made(tmp_path, rules.FedAdam(), files, model(99), kept)
    with pytest.raises(CannotAggregate, match="the rule keeps none"):
        made(tmp_path, rules.FedAvg(), files, model(99), kept)


@pytest.mark.parametrize("settings", [rules.FedAdam(), rules.Bulyan()], ids=name)
def test_more_updates_than_files_may_be_open(settings: Any, tmp_path: Path) -> None:
    path = update(tmp_path, "all", model(0)).path
    files = [Update(f"p{number:03}", path, 1) for number in range(HELD_OPEN + 1)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 30, hard))
    try:
        merged = load(made(tmp_path, settings, files, model(0)).weights)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert np.allclose(merged["dense/kernel"], model(0)["dense/kernel"])


@pytest.mark.parametrize("settings", EVERY, ids=name)
def test_how_wide_slices_are_does_not_show_in_the_result(settings: Any, tmp_path: Path) -> None:
    files = updates_of(tmp_path)
    digests = set()
    for numbers in (5, 17, 1000):
        with mock.patch("quoracy.learn.aggregate.width", return_value=numbers):
            result = made(tmp_path, settings, files, model(99))
        digests.add((result.digest, result.state_digest))
    assert len(digests) == 1


def test_the_mean_of_many_is_as_exact_as_that_of_few(tmp_path: Path) -> None:
    """Float32 alone would lose two digits over a thousand updates."""
    dice = np.random.default_rng(5)
    vectors = [(1000 + dice.standard_normal(50)).astype(np.float32) for _ in range(1000)]
    samples = [int(n) for n in dice.integers(1, 5000, len(vectors))]
    files = [update(tmp_path, f"p{n:04}", {"w": v}, k) for n, (v, k) in enumerate(zip(vectors, samples, strict=True))]
    merged = load(made(tmp_path, rules.FedAvg(), files, {"w": vectors[0]}).weights)["w"]
    wanted = np.average(np.stack(vectors).astype(np.float64), axis=0, weights=samples).astype(np.float32)
    np.testing.assert_array_max_ulp(merged, wanted, 2)


@pytest.mark.parametrize("signs", [(1,), (-1, 1)], ids=["alike", "cancelling out"])
def test_the_mean_is_within_seven_units_of_the_largest_number(signs: tuple[int, ...], tmp_path: Path) -> None:
    """Of the largest, not of the mean: where numbers cancel out, what is left is as inexact as they were."""
    dice = np.random.default_rng(6)
    vectors = [
        (dice.uniform(1.9, 2.0, 2000) * signs[n % len(signs)]).astype(np.float32) for n in range(30)
    ]  # fmt: skip
    samples = [int(n) for n in dice.integers(1, 5000, len(vectors))]
    files = [update(tmp_path, f"p{n:04}", {"w": v}, k) for n, (v, k) in enumerate(zip(vectors, samples, strict=True))]
    merged = load(made(tmp_path, rules.FedAvg(), files, {"w": vectors[0]}).weights)["w"]
    wanted = np.average(np.stack(vectors).astype(np.float64), axis=0, weights=samples)
    unit = np.spacing(np.abs(np.stack(vectors)).max(axis=0))
    assert (np.abs(merged - wanted) / unit).max() <= 7


def test_settings_come_from_a_duty_as_plain_names_and_values(tmp_path: Path) -> None:
    for settings in EVERY:
        plain = msgspec.json.decode(msgspec.json.encode(settings))
        again: Any = msgspec.convert(plain, rules.Aggregation)
        assert again == settings


# -- memory ----------------------------------------------------------------------------------------------------------


def peak_bytes(settings: Any, model: Path, count: int, out: Path) -> int:
    updates = [Update(f"p{number:03}", model, 1) for number in range(count)]
    tracemalloc.start()
    try:
        aggregate(settings, updates, model, None, out)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 MB, in two tensors of which one is nearly all."""
    path = tmp_path_factory.mktemp("large") / "model"
    dice = np.random.default_rng(1)
    save(path, {"w": dice.standard_normal((1000, 1500), np.float32), "b": dice.standard_normal(100, np.float32)})
    return path


@pytest.mark.parametrize("count", [3, 100])
@pytest.mark.parametrize("settings", AVERAGING, ids=name)
def test_averaging_needs_no_more_than_one_and_a_half_models(
    settings: Any, count: int, large: Path, tmp_path: Path
) -> None:
    assert peak_bytes(settings, large, count, tmp_path) <= 1.5 * large.stat().st_size


@pytest.mark.parametrize("settings", EVERY[6:11], ids=name)
def test_the_robust_rules_need_a_slice_of_everything(settings: Any, large: Path, tmp_path: Path) -> None:
    """Rows of half a model at most, float64 of them for distances, and what sorting them in columns takes."""
    assert peak_bytes(settings, large, 60, tmp_path) <= 2 * large.stat().st_size


@pytest.mark.parametrize("settings", EVERY[6:11], ids=name)
def test_the_robust_rules_need_two_slices_of_float64_of_all_updates(settings: Any, large: Path, tmp_path: Path) -> None:
    """Far less than the updates, which are twenty models."""
    room = 2 * 8 * 20 * width(20, large.stat().st_size)
    assert room < 2 * large.stat().st_size
    assert peak_bytes(settings, large, 20, tmp_path) <= room


MEASURED = """
import resource, sys
from pathlib import Path
from quoracy.core.federated.aggregation import FedAvg
from quoracy.learn import Update, aggregate, load, save
import numpy as np
model, out, models = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
save(out / "small", {"w": np.zeros(1000, np.float32)})
def run(path, count):
    aggregate(FedAvg(), [Update(f"p{n}", path, 1) for n in range(count)], path, None, out)
run(out / "small", 2)
field = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
room = int(field.split()[1]) * 1024 + int(models * model.stat().st_size)
resource.setrlimit(resource.RLIMIT_DATA, (room, room))
hoarded = [np.array(array) for array in load(model).values() for _ in range(int(sys.argv[4]))]
run(model, 60)
print("done")
"""


def confined(model: Path, out: Path, models: float, hoards: int) -> subprocess.CompletedProcess[str]:
    """In a process that the system gives room for so many models more than it has, and not a page beyond."""
    command = [sys.executable, "-c", MEASURED, str(model), str(out), str(models), str(hoards)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_process_with_room_for_one_and_a_half_models_is_enough(large: Path, tmp_path: Path) -> None:
    assert confined(large, tmp_path, 1.5, 0).stdout == "done\n"
    assert "MemoryError" in confined(large, tmp_path, 1.5, 2).stderr, "two models do not fit, or the room is not one"
