"""Tokens: only what this authority made, for this purpose, unchanged and in time, is good."""

from __future__ import annotations

import hmac
import os
import stat
import string
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.core.errors import ConfigError, Refusal
from quoracy.doors import tokens
from quoracy.doors.auth import Authority, Identity, Role
from quoracy.doors.tokens import MAX_TOKEN, SECRET_FILE

NOW_S = 1_800_000_000.0
OURS = Authority(bytes(range(32)))
THEIRS = Authority(bytes(range(1, 33)))
ALPHABET = string.ascii_letters + string.digits + "-_.~= é"


def refused(outcome: object) -> Refusal:
    assert isinstance(outcome, Refusal)
    assert outcome.code == "bad_token"
    return outcome


# -- role tokens ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", Role)
def test_a_token_says_what_it_was_made_for(role: Role) -> None:
    token = OURS.new_token(role, "bert-*", 60, "Ada's laptop", NOW_S)
    assert token.startswith(f"qrt1_{role.value}_")
    identity = OURS.check_token(token, NOW_S)
    assert isinstance(identity, Identity)
    assert (identity.role, identity.run, identity.name) == (role, "bert-*", "Ada's laptop")


def test_two_tokens_for_the_same_are_two_identities() -> None:
    first, second = (OURS.check_token(OURS.new_token(Role.MEMBER), NOW_S) for _ in range(2))
    assert isinstance(first, Identity)
    assert isinstance(second, Identity)
    assert first.id != second.id


def test_a_token_ends_to_the_second() -> None:
    token = OURS.new_token(Role.MEMBER, expires_s=60, now_s=NOW_S)
    assert isinstance(OURS.check_token(token, NOW_S + 59.999), Identity)
    assert "expired 0 s ago" in refused(OURS.check_token(token, NOW_S + 60)).why
    assert "expired 40 s ago" in refused(OURS.check_token(token, NOW_S + 100)).why


def test_a_token_without_an_end_has_none() -> None:
    assert isinstance(OURS.check_token(OURS.new_token(Role.MEMBER), 1e15), Identity)


def test_every_single_changed_character_is_noticed() -> None:
    token = OURS.new_token(Role.MEMBER, "bert", 60, "a", NOW_S)
    for place, character in enumerate(token):
        for other in ALPHABET:
            if other != character:
                refused(OURS.check_token(token[:place] + other + token[place + 1 :], NOW_S))


def test_every_truncation_and_extension_is_noticed() -> None:
    token = OURS.new_token(Role.ADMIN)
    for size in range(len(token)):
        refused(OURS.check_token(token[:size], NOW_S))
        refused(OURS.check_token(token[size + 1 :], NOW_S))
    for more in ("=", ".", "A", " ", "\n", "\0"):
        refused(OURS.check_token(token + more, NOW_S))
        refused(OURS.check_token(more + token, NOW_S))


def test_a_role_cannot_be_exchanged() -> None:
    token = OURS.new_token(Role.MEMBER)
    for role in ("viewer", "operator", "admin"):
        refused(OURS.check_token(token.replace("_member_", f"_{role}_", 1), NOW_S))


def test_pieces_of_two_tokens_are_no_token() -> None:
    first, second = OURS.new_token(Role.MEMBER, "bert"), OURS.new_token(Role.MEMBER, "gpt")
    refused(OURS.check_token(first.partition(".")[0] + "." + second.partition(".")[2], NOW_S))


def test_another_authority_makes_other_tokens() -> None:
    assert "did not make" in refused(OURS.check_token(THEIRS.new_token(Role.ADMIN), NOW_S)).why


def test_a_token_of_the_other_sort_is_told_so() -> None:
    session = OURS.session_token("bert", "w1", 1, 1)
    assert "this is a session token" in refused(OURS.check_token(session, NOW_S)).why
    role = OURS.new_token(Role.MEMBER)
    assert "names a role" in refused(OURS.check_session(role, "bert", "w1", 1, 0)).why


def test_the_two_sorts_have_keys_of_their_own() -> None:
    """The seal that is right for one sort of text is wrong when it is made with the key of the other."""
    text = OURS.new_token(Role.ADMIN).partition(".")[0]
    forged = f"{text}.{tokens._seal(OURS._session_key, text.encode())}"
    refused(OURS.check_token(forged, NOW_S))
    assert OURS._session_key != OURS._role_key


@pytest.mark.parametrize(
    "token", ["", ".", "x", "qrt1_", "qrt1_member_", "qrt2_member_AAAA.AAAA", "qrt1_root_A.A", "é"]
)
def test_what_is_no_token_is_refused(token: str) -> None:
    refused(OURS.check_token(token, NOW_S))
    refused(OURS.check_session(token, "bert", "w1", 1, 0))


@given(st.text(max_size=MAX_TOKEN + 10))
def test_no_text_is_taken_or_crashes(token: str) -> None:
    refused(OURS.check_token(token, NOW_S))
    refused(OURS.check_session(token, "bert", "w1", 1, 0))


@given(st.binary(max_size=200), st.sampled_from(list(Role)))
def test_a_body_that_nobody_can_read_is_refused_even_if_it_is_ours(body: bytes, role: Role) -> None:
    text = f"qrt1_{role.value}_{tokens._text(body)}"
    outcome = OURS.check_token(f"{text}.{tokens._seal(OURS._role_key, text.encode())}", NOW_S)
    assert isinstance(outcome, Identity) or outcome.code == "bad_token"


def test_seals_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return False

    role, session = OURS.new_token(Role.MEMBER), OURS.session_token("bert", "w1", 1, 1)
    monkeypatch.setattr(hmac, "compare_digest", compare)
    refused(OURS.check_token(role, NOW_S))
    refused(OURS.check_session(session, "bert", "w1", 1, 0))
    assert [left == right for left, right in compared] == [True, True], "nothing but compare_digest decides"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"expires_s": 0}, "expires"),
        ({"expires_s": -1}, "expires"),
        ({"expires_s": float("nan")}, "expires"),
        ({"expires_s": float("inf")}, "expires"),
        ({"run": ""}, "run"),
        ({"run": "a*b"}, "run"),
        ({"run": "x" * 129}, "run"),
        ({"run": "\ud800"}, "run, name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"run": "\U0001f600" * 128, "name": "\U0001f600" * 64}, "run, name"),
    ],
)
def test_what_a_token_cannot_say_is_named(arguments: dict[str, object], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OURS.new_token(Role.MEMBER, **arguments)  # type: ignore[arg-type]
    assert caught.value.field == field


# -- session tokens ------------------------------------------------------------------------------------------------

FIELDS = ("bert", "w1", 3, 7)


def test_a_session_token_says_when_it_ends_and_ends_then() -> None:
    token = OURS.session_token(*FIELDS)
    assert OURS.check_session(token, "bert", "w1", 3, 6.9) == 7
    refusal = refused(OURS.check_session(token, "bert", "w1", 3, 7.0))
    assert "expired 0 s ago" in refusal.why
    assert "join again" in refusal.fix


@pytest.mark.parametrize("other", [("gpt", "w1", 3), ("bert", "w2", 3), ("bert", "w1", 4), ("bert", "w1", 2)])
def test_a_session_token_is_for_one_life_of_one_member_of_one_run(other: tuple[str, str, int]) -> None:
    refusal = refused(OURS.check_session(OURS.session_token(*FIELDS), *other, 0))
    assert refusal.fix == "join again"


def test_the_end_cannot_be_changed_nor_written_otherwise() -> None:
    token = OURS.session_token(*FIELDS)
    for end in ("8", "07", "+7", " 7", "7 ", "-7", "0x7", "", "٧", str(2**53 + 1), "9" * 40):
        refused(OURS.check_session(token.replace("_7.", f"_{end}.", 1), "bert", "w1", 3, 0))


@given(
    st.tuples(st.text(max_size=9), st.text(max_size=9), st.integers(0, 2**53), st.integers(0, 2**53)),
    st.tuples(st.text(max_size=9), st.text(max_size=9), st.integers(0, 2**53), st.integers(0, 2**53)),
)
def test_different_fields_never_share_a_token(
    left: tuple[str, str, int, int], right: tuple[str, str, int, int]
) -> None:
    assert (OURS.session_token(*left) == OURS.session_token(*right)) is (left == right)


@pytest.mark.parametrize(
    ("left", "right"), [(("ab", "c"), ("a", "bc")), (("a", "\x01b"), ("a\x01", "b")), (("", "ab"), ("ab", ""))]
)
def test_fields_cannot_flow_into_each_other(left: tuple[str, str], right: tuple[str, str]) -> None:
    token = OURS.session_token(*left, 1, 1)
    assert OURS.check_session(token, *left, 1, 0) == 1
    refused(OURS.check_session(token, *right, 1, 0))


def test_a_session_of_another_authority_is_refused() -> None:
    refused(OURS.check_session(THEIRS.session_token(*FIELDS), "bert", "w1", 3, 0))


# -- the secret ----------------------------------------------------------------------------------------------------


def test_the_secret_is_made_once_and_read_ever_after(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "quoracy-data"
    token = Authority.open(folder).new_token(Role.MEMBER)
    assert isinstance(Authority.open(folder).check_token(token, NOW_S), Identity)
    assert [path.name for path in folder.iterdir()] == [SECRET_FILE], "no temporary file is left"


def test_only_the_owner_can_read_the_secret(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Authority.open(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / SECRET_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_secret_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    Authority.open(tmp_path)
    (tmp_path / SECRET_FILE).chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        Authority.open(tmp_path)


@pytest.mark.parametrize("content", [b"", b"quoracy secret 1 \n", b"quoracy secret 2 " + b"00" * 32, b"\xff" * 40])
def test_a_damaged_secret_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    Authority.open(tmp_path)
    (tmp_path / SECRET_FILE).write_bytes(content)
    with pytest.raises(ConfigError, match="no secret of a Quoracy server"):
        Authority.open(tmp_path)
    assert (tmp_path / SECRET_FILE).read_bytes() == content


def test_many_who_open_a_new_folder_at_once_agree_on_one_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        opened = list(pool.map(Authority.open, [tmp_path] * 64))
    token = opened[0].new_token(Role.MEMBER)
    assert all(isinstance(each.check_token(token, NOW_S), Identity) for each in opened)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        Authority.open(tmp_path / "file" / "below")


def test_the_secret_does_not_show() -> None:
    assert bytes(range(32)).hex() not in repr(OURS)
    assert not hasattr(OURS, "__dict__")
