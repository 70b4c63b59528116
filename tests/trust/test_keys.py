"""Member keys: a proof is for one join on one connection, and for nothing else."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.errors import ConfigError
from quoracy.core.members import signed_by_joiner
from quoracy.trust.keys import _PRIME, _WEAK, MemberKey, check_proof

KEY = MemberKey.create()
JOIN: dict[str, Any] = {
    "challenge": b"c" * 32, "run": "bert", "member": "w1", "supersedes": 2, "nonce": b"n" * 16,
}  # fmt: skip
PROOF = KEY.sign(signed_by_joiner(**JOIN))


def test_the_holder_of_the_key_can_prove_it() -> None:
    assert len(KEY.public) == 32
    assert check_proof(KEY.public, signed_by_joiner(**JOIN), PROOF)


@pytest.mark.parametrize(
    "other",
    [{"challenge": b"d" * 32}, {"run": "gpt"}, {"member": "w2"}, {"supersedes": 3}, {"nonce": b"m" * 16}],
    ids=lambda other: next(iter(other)),
)
def test_a_proof_is_no_good_for_another_join(other: dict[str, Any]) -> None:
    assert not check_proof(KEY.public, signed_by_joiner(**(JOIN | other)), PROOF)


def test_the_fields_of_a_join_cannot_flow_into_each_other() -> None:
    first = signed_by_joiner(b"c", "ab", "c", 1, b"n")
    assert first != signed_by_joiner(b"c", "a", "bc", 1, b"n")
    assert first != signed_by_joiner(b"ca", "b", "c", 1, b"n")


def test_another_key_proves_nothing() -> None:
    assert not check_proof(MemberKey.create().public, signed_by_joiner(**JOIN), PROOF)


@given(st.binary(max_size=70), st.binary(max_size=20), st.binary(max_size=70))
def test_no_bytes_prove_anything_or_crash(public: bytes, message: bytes, signature: bytes) -> None:
    assert not check_proof(public, message, signature)


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=64, max_size=64))
def test_bytes_of_the_right_length_prove_nothing_either(public: bytes, signature: bytes) -> None:
    assert not check_proof(public, b"message", signature)
    assert not check_proof(KEY.public, b"message", signature)


# -- keys under which every message looks signed -------------------------------------------------------------------

D = -121665 * pow(121666, -1, _PRIME) % _PRIME


def x_of(y: int) -> int | None:
    """One of the two x of a point of the curve; None if there is none."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, _PRIME) % _PRIME
    x = pow(square, (_PRIME + 3) // 8, _PRIME)
    for candidate in (x, x * pow(2, (_PRIME - 1) // 4, _PRIME) % _PRIME):
        if candidate * candidate % _PRIME == square:
            return candidate
    return None


def doubled(point: tuple[int, int]) -> tuple[int, int]:
    x, y = point
    slope = D * x * x % _PRIME * y % _PRIME * y % _PRIME
    over = 2 * x * y * pow(1 + slope, -1, _PRIME) % _PRIME
    return over, (y * y + x * x) * pow(1 - slope, -1, _PRIME) % _PRIME


@pytest.mark.parametrize("y", sorted(_WEAK))
def test_every_weak_key_is_a_point_whose_order_divides_eight(y: int) -> None:
    x = x_of(y % _PRIME)
    assert x is not None
    point = (x, y % _PRIME)
    for _ in range(3):
        point = doubled(point)
    assert point == (0, 1)


def test_all_eight_such_points_are_refused() -> None:
    """Four of them differ from another only in the sign of x; y = 1 and y = -1 have one x."""
    reduced = {y % _PRIME for y in _WEAK}
    assert sum(1 if x_of(y) == 0 else 2 for y in reduced) == 8


@pytest.mark.parametrize("y", sorted(_WEAK))
@pytest.mark.parametrize("sign", [0, 1 << 255])
def test_under_a_weak_key_nothing_is_proven(y: int, sign: int) -> None:
    signature = (1).to_bytes(32, "little") + bytes(32)
    for number in range(32):
        assert not check_proof((y | sign).to_bytes(32, "little"), b"%d" % number, signature)


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_saved_key_is_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "w1.key"
    KEY.save(path)
    loaded = MemberKey.load(path)
    assert loaded.public == KEY.public
    assert check_proof(KEY.public, b"message", loaded.sign(b"message"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_key_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "w1.key"
    KEY.save(path)
    with pytest.raises(ConfigError, match="not overwritten"):
        MemberKey.create().save(path)
    assert MemberKey.load(path).public == KEY.public
    assert [each.name for each in tmp_path.iterdir()] == ["w1.key"]


def test_many_who_open_a_new_key_at_once_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        opened = list(pool.map(MemberKey.open, [tmp_path / "w1.key"] * 64))
    assert len({key.public for key in opened}) == 1


def test_a_key_that_others_can_open_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w1.key"
    KEY.save(path)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        MemberKey.load(path)


@pytest.mark.parametrize(
    "content", [b"", b"rubbish", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "w1.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="holds no unencrypted Ed25519 key"):
        MemberKey.load(path)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        MemberKey.load(tmp_path / "gone.key")


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.write_bytes(bytes(100_000))
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="larger than"):
        MemberKey.load(path)


def test_a_key_shows_only_its_public_half() -> None:
    assert repr(KEY) == f"MemberKey({KEY.public.hex()})"
