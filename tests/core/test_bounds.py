"""Numbers are bounded before they are computed with: digits are counted, not seconds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect as shape
from tests.core.scribe import Scribe, created

from quoracy.cli.state_file import read_state
from quoracy.config import ServerConfig, load_config
from quoracy.config.etcd_url import parse_etcd
from quoracy.core.bounds import MAX_DEPTH, MAX_DIGITS, MOST_INT, exact, share, unbounded, whole
from quoracy.core.errors import MAX_SHOWN, ConfigError, shown
from quoracy.core.journal import RunCreated
from quoracy.core.kinds import KINDS
from quoracy.core.run import Run, fold
from quoracy.sdk.client.address import parse_address

ENORMOUS: list[Any] = [
    "1e-20000000", "1e20000000", "0." + "0" * 30 + "1", "9" * 39, "1/0", "0/1", "-1/2", "1_0/2_0", "٣/٤", "inf", "nan",
    10**400, 2**64, -(2**63) - 1, math.inf, -math.inf, math.nan, 1e308, 5e-324, [[10**400]], {"a": {"b": math.nan}},
]  # fmt: skip
ODD = "".join(sorted("0123456789eE+-./_ ٣infan"))


def configs() -> list[tuple[str, type[msgspec.Struct]]]:
    return [(kind.name, kind.config) for kind in KINDS]


# -- every number has a least and a most ---------------------------------------------------------------------------


def loose(kind: Any, name: str) -> Iterator[str]:
    """Numbers without bounds, and texts, lists and tables without a most, in a type."""
    match kind:
        case shape.IntType() | shape.FloatType():
            low, high = (kind.ge, kind.gt), (kind.le, kind.lt)
            if set(low) == {None} or set(high) == {None}:
                yield name
        case shape.UnionType():
            for one in kind.types:
                yield from loose(one, name)
        case shape.VarTupleType() | shape.ListType() | shape.SetType():
            yield from loose(kind.item_type, f"{name}[]")
        case shape.DictType():
            if kind.max_length is None:
                yield name
            yield from loose(kind.value_type, f"{name}.*")
        case shape.StructType():
            for field in kind.fields:
                yield from loose(field.type, f"{name}.{field.name}")
        case shape.AnyType():
            yield name


def test_every_setting_that_is_a_number_has_a_least_and_a_most() -> None:
    found = [name for kind, config in configs() for name in loose(shape.type_info(config), kind)]
    for field in msgspec.structs.fields(ServerConfig):
        if field.name != "runs":
            found += loose(shape.type_info(field.type), field.name)
    of_any_type = {"witnessed.hyper.*", "federated.hyper.*", "federated.hyper_steps[].hyper.*"}
    of_any_type.add("federated.aggregation.settings.*")  # bounded by ``unbounded``, as below
    assert set(found) == {"witnessed.witness_quorum"} | of_any_type  # and the first by ``share``


@pytest.mark.parametrize("kind", [kind for kind, _ in configs()])
def test_no_value_of_a_setting_is_computed_with_before_it_is_bounded(kind: str) -> None:
    config = dict(configs())[kind]
    for field in config.__struct_fields__:
        for value in ENORMOUS:
            outcome = tried(kind, {field: value})
            if isinstance(outcome, Run):
                msgspec.msgpack.encode(outcome.head.config)
                assert not list(unbounded(outcome.head.config))
            else:
                assert len(outcome) < 4096


def tried(kind: str, config: dict[str, Any]) -> Run | str:
    try:
        return Run.create(KINDS, RunCreated("r", kind, 1, config))
    except ConfigError as error:
        return str(error)


def test_settings_of_an_own_rule_are_bounded_however_deep() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    for value in (*(value for value in ENORMOUS if not isinstance(value, str)), deep):
        if not list(unbounded(value)):
            continue
        rule = {"rule": "own", "of": "a:B", "settings": {"x": [1, value]}}
        with pytest.raises(ConfigError) as caught:
            Run.create(KINDS, RunCreated("r", "federated", 1, {"aggregation": rule}))
        assert caught.value.field.startswith("aggregation.settings.x[1]")


def test_a_journal_that_holds_such_a_value_is_refused_when_it_is_folded() -> None:
    """Whoever wrote it: a host that reads it neither computes nor goes on."""
    whole_entry = Scribe(KINDS, created("witnessed", {"witness_quorum": "2/3"})).payloads[0]
    for text in ("1e-20000000", "9e-99999999"):
        made = encoded(whole_entry, text)
        with pytest.raises(ConfigError, match="witness_quorum"):
            fold(KINDS, "demo", [made])


def encoded(entry: bytes, quorum: str) -> bytes:
    """The entry with another quorum in its RunCreated."""
    fields = msgspec.msgpack.decode(entry)

    def swapped(value: Any) -> Any:
        match value:
            case dict():
                return {key: quorum if key == "witness_quorum" else swapped(one) for key, one in value.items()}
            case list():
                return [swapped(one) for one in value]
        return value

    return msgspec.msgpack.encode(swapped(fields))


# -- shares ----------------------------------------------------------------------------------------------------------


@given(st.text(ODD, max_size=64) | st.floats() | st.integers(-9, 9))
def test_a_share_has_few_digits_or_is_none(given: str | float) -> None:
    try:
        found = share(given)
    except ValueError:
        return
    assert 0 < found <= 1
    assert max(found.numerator, found.denominator) < 10 ** (2 * MAX_DIGITS)


@pytest.mark.parametrize(
    "text", ["1e-20000000", "1e-5", "2/0", "0/3", "3/2", "1.5", "", "٣/٤", "1_0/2_0", "-1/2", "0.0"]
)
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no share"):
        share(text)


def test_shares_are_exact() -> None:
    assert share(0.1) == share("0.1") == Fraction(1, 10)
    assert share("999999999999999999/999999999999999999") == 1


# -- texts that become numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1 ", "٣", "1e3", "0x10", "65536", "9" * 5000, "1_0"])
def test_what_is_no_plain_number_within_bounds_is_none(text: str) -> None:
    assert whole(text, 65535) is None


def test_plain_numbers() -> None:
    assert [whole(text, 65535) for text in ("0", "7", "007", "65535", "0" * 5000)] == [0, 7, 7, 65535, 0]
    assert (exact(2.0), exact(2.5), exact(1e300)) == (2, 2.5, 1e300)
    assert type(exact(1e300)) is float


@pytest.mark.parametrize("port", ["9" * 5000, "٣", "1_0", "99999"])
def test_ports_are_bounded(port: str) -> None:
    assert parse_address(f"host:{port}") is None
    with pytest.raises(ConfigError, match=r"store\.etcd"):
        parse_etcd(f"etcd://host:{port}/p")


def test_an_error_never_repeats_much() -> None:
    for value in (10**400, 10**5000, "x" * 10_000, {"a": [10**5000]}):
        assert len(shown(value)) <= MAX_SHOWN
        assert len(str(ConfigError("field", value, "fix"))) < MAX_SHOWN + 50
    assert list(unbounded({"a": [MOST_INT, -(2**63), 1e308, True, None, "1e999"]})) == []


# -- files -----------------------------------------------------------------------------------------------------------

FILES = {
    "digits": "{name} = " + "9" * 5000,
    "hex": "{name} = 0x" + "f" * 100_000,
    "infinite": "{name} = inf",
    "none": "{name} = nan",
    "deep": "{name} = " + "[" * 5000 + "]" * 5000,
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_state_file_with_such_a_number_is_refused_and_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "state.toml"
    path.write_text(content.format(name="warmup_s"))
    with pytest.raises(ConfigError, match=r"state\.toml"):
        read_state(path)


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_servers_file_with_such_a_number_is_refused_and_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "quoracy.toml"
    path.write_text("[host]\n" + content.format(name="drain_s"))
    with pytest.raises(ConfigError, match=r"quoracy\.toml"):
        load_config(path, {}, {})


def test_variables_are_bounded() -> None:
    for text in ("9" * 5000, "1e3", "-5", "٣"):
        with pytest.raises(ConfigError, match="HEARTBEAT_INTERVAL"):
            load_config(None, {}, {"HEARTBEAT_INTERVAL": text})
