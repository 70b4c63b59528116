"""Which answers the SDK takes for passing, and how long it waits then: by the catalog, and by what it is advised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from quoracy.core.errors import CATALOG, ObjectMissing, ObjectsError, ObjectsUnreachable, Refusal, Refused, Retry
from quoracy.sdk.client.ask import ELSEWHERE
from quoracy.sdk.client.errors import AccessDenied, Ejected, Quarantined, from_refusal
from quoracy.sdk.witnessed import samples as samples_http
from quoracy.sdk.witnessed.samples import REFUSED, HttpSamples


def test_another_address_is_asked_only_if_nothing_was_done_at_the_first() -> None:
    assert {"not_serving", "draining", "too_fast", "overloaded", "journal_busy"} <= ELSEWHERE
    assert not ELSEWHERE & {"outcome_unknown", "journal_broken", "still_waiting", "unknown_run", "roster_full"}
    assert {CATALOG[code].retry for code in ELSEWHERE} == {Retry.LATER}


@pytest.mark.parametrize(
    "code", ["bad_token", "forbidden", "key_mismatch", "not_yours", "too_many_ids", "bad_signature"]
)
def test_whoever_may_not_is_denied_access(code: str) -> None:
    assert type(from_refusal(Refusal(code, "why", "fix"))) is AccessDenied


def test_whoever_was_shut_out_is_told_that_instead() -> None:
    assert type(from_refusal(Refusal("quarantined", "why", "fix"))) is Quarantined
    assert type(from_refusal(Refusal("ejected", "why", "fix"))) is Ejected


class Line:
    """Says no, in one way after the other, and then has it."""

    def __init__(self, *errors: ObjectsError | Refused) -> None:
        self._errors = iter(errors)

    @contextmanager
    def asked(self, *_args: Any) -> Iterator[Any]:
        yield self

    @property
    def status(self) -> int:
        self.error = next(self._errors, None)
        return 200 if self.error is None else 500

    def read(self) -> bytes:
        return b"samples"


@pytest.fixture
def waited_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr(HttpSamples, "_pause", lambda _self, pause_s: waited.append(pause_s))
    monkeypatch.setattr(samples_http, "failed", lambda answer, *_: answer.error)
    return waited


def samples(*errors: ObjectsError | Refused) -> HttpSamples:
    line: Any = Line(*errors)
    return HttpSamples(lambda: line, lambda: None)


def test_waits_for_samples_grow_and_are_spread(waited_s: list[float]) -> None:
    assert samples(*[ObjectsUnreachable("away")] * 7).fetch([1]) == b"samples"
    for pause_s, most_s in zip(waited_s, [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0], strict=True):
        assert most_s / 2 <= pause_s <= most_s


def test_samples_are_not_asked_for_sooner_than_the_door_advises(waited_s: list[float]) -> None:
    assert samples(ObjectsUnreachable("busy", 7.0)).fetch([1]) == b"samples"
    assert 7.0 <= waited_s[0] <= 10.5


def test_a_request_for_samples_that_is_wrong_in_itself_is_not_repeated(waited_s: list[float]) -> None:
    for code in ("too_large", "config", "malformed", "contradiction"):
        with pytest.raises(Refused, match=code):
            samples(Refused(Refusal(code, "why", "fix"))).fetch([1])
    assert waited_s == []


def test_one_whose_life_may_be_over_waits_to_be_told_so(waited_s: list[float]) -> None:
    refused = Refused(Refusal("superseded", "why", "fix"))
    with pytest.raises(Refused, match="superseded"):
        samples(*[refused] * REFUSED).fetch([1])
    assert len(waited_s) == REFUSED - 1


def test_samples_that_are_not_there_are_not_waited_for(waited_s: list[float]) -> None:
    with pytest.raises(ObjectMissing):
        samples(ObjectMissing("held-out")).fetch([1])
    assert waited_s == []
