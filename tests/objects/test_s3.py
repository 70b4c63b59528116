"""Objects on a real S3 server: claims, killed processes, lost replies, silence, wrong keys."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.objects.programs import pattern
from tests.objects.proxy import Proxy
from tests.objects.weed import KEYS, VARIABLES, Weed, opened_at
from tests.stores.process import running

from quoracy.config.objects_url import parse_objects
from quoracy.core.errors import ObjectCorrupt, ObjectsBroken, ObjectsDenied, ObjectsUnreachable
from quoracy.objects.bucket import Bucket
from quoracy.objects.claims import Claims
from quoracy.objects.s3 import S3Objects
from quoracy.testing.objects import LARGE_BYTES, content_of, digest_of

PROGRAMS = Path(__file__).with_name("programs.py")


def bucket_at(url: str) -> Bucket:
    return Bucket(parse_objects(url), KEYS)


def own(url: str) -> list[str]:
    """The names there that are no keys."""
    return sorted(name for name, _, _ in bucket_at(url).names("") if name.startswith("."))


# -- what the server does ----------------------------------------------------------------------------------------------


def test_of_many_conditional_requests_at_once_one_succeeds(weed: Weed) -> None:
    """What everything here rests on. (The end of an upload in parts is not conditional on this server, though it looks
    so: two that end at once may both succeed.)"""
    bucket = bucket_at(weed.url())
    for turn in range(4):
        start = threading.Barrier(8)
        created: list[bool] = []

        def create(name: str, start: threading.Barrier = start, created: list[bool] = created) -> None:
            start.wait(20)
            created.append(bucket.create(name, os.urandom(100)))

        threads = [threading.Thread(target=create, args=(f"k{turn}",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sorted(created) == [False] * 7 + [True]


def test_more_than_a_page_is_listed(weed: Weed) -> None:
    objects = opened_at(weed.url())
    keys = sorted(f"run/{i % 2}/{i:04}" for i in range(1100))
    for key in keys:
        objects.put(key, b"")
    first = objects.listing("run")
    second = objects.listing("run", first[-1].key)
    assert [len(first), len(second)] == [1000, 100]
    assert [found.key for found in first + second] == keys


# -- large objects and their claims ------------------------------------------------------------------------------------


def test_a_large_object_leaves_nothing_but_its_claim(weed: Weed) -> None:
    url = weed.url()
    objects = opened_at(url)
    objects.put("run/k", content_of("x", LARGE_BYTES))
    assert own(url) == [".claims/run/k/1"]
    assert not objects.put("run/k", content_of("y", LARGE_BYTES))
    assert own(url) == [".claims/run/k/1"]
    objects.sweep(3600.0)
    assert own(url) == [".claims/run/k/1", ".clock/now"]
    objects.sweep(0.0)
    assert own(url) == [".clock/now"]


def test_an_object_whose_writer_died_after_its_claim_is_completed_by_the_next(weed: Weed) -> None:
    url = weed.url()
    bucket, objects = bucket_at(url), opened_at(url)
    dead = content_of("dead", LARGE_BYTES)
    bucket.write(".new/of-the-dead", iter([dead]))
    bucket.create(".claims/k/1", b"of-the-dead")
    assert not objects.put("k", content_of("next", LARGE_BYTES))
    assert objects.get("k", LARGE_BYTES) == dead


def test_a_claim_whose_object_is_gone_holds_up_nobody(weed: Weed) -> None:
    url = weed.url()
    bucket, objects = bucket_at(url), opened_at(url)
    for number in (1, 2):
        bucket.create(f".claims/k/{number}", b"of-the-dead")
    content = content_of("next", LARGE_BYTES)
    assert objects.put("k", content)
    assert objects.get("k", LARGE_BYTES) == content
    assert own(url) == [".claims/k/1", ".claims/k/2", ".claims/k/3"]


def test_whoever_holds_the_claim_has_created_it_also_if_another_copied_it(weed: Weed) -> None:
    url = weed.url()
    bucket = bucket_at(url)
    content = content_of("mine", LARGE_BYTES)
    bucket.write(".new/mine", iter([content]))
    bucket.create(".claims/k/1", b"mine")
    assert not opened_at(url).put("k", content_of("another", LARGE_BYTES))

    class Held(Claims):
        def _claim(self, name: str, nonce: str) -> str | None:
            """As if the process had created the claim, and stood still until now."""
            return nonce

    assert Held(bucket).publish("mine", "k")


def test_an_upload_that_was_swept_before_it_was_published_is_told(weed: Weed) -> None:
    with pytest.raises(ObjectsBroken, match="'k' was swept away before it was published; put it again"):
        Claims(bucket_at(weed.url())).publish("gone", "k")


def test_objects_go_from_one_bucket_to_another_in_chunks(weed: Weed) -> None:
    """The client must not be asked from inside itself."""
    here, there = opened_at(weed.url()), opened_at(weed.url())
    content = content_of("x", LARGE_BYTES)
    here.put("k", content)
    assert there.put_chunks("k", here.chunks("k"), digest_of(content))
    assert there.get("k", LARGE_BYTES) == content


def test_nobody_reads_half_of_one_object_and_half_of_another(weed: Weed) -> None:
    objects = opened_at(weed.url())
    for name in "ab":
        objects.put(name, content_of(name, LARGE_BYTES))
    objects.alias("a", "global")
    chunks = objects.chunks("global")
    next(chunks)
    objects.alias("b", "global")
    with pytest.raises(ObjectCorrupt, match="'global': it was replaced while it was read; read it again"):
        next(chunks)


def test_a_part_of_an_upload_that_was_thrown_away_is_nobodys(weed: Weed) -> None:
    url = weed.url()
    objects = opened_at(url)
    bucket_at(url).create(f".partial/u/{1000:020}", b"too late")
    assert (objects.offset("u"), objects.begin("u")) == (None, 0)
    assert objects.append("u", 0, b"x") == 1


# -- processes ---------------------------------------------------------------------------------------------------------


def test_of_two_processes_that_create_one_wins(weed: Weed) -> None:
    url = weed.url()
    with (
        running("race", url, "a", 8, file=PROGRAMS, **VARIABLES) as a,
        running("race", url, "b", 8, file=PROGRAMS, **VARIABLES) as b,
    ):
        for each in (a, b):
            assert each.line() == "ready"
        for each in (a, b):
            each.tell()
        won = {name: [int(line) for line in each.rest()] for name, each in (("a", a), ("b", b))}
    assert sorted(won["a"] + won["b"]) == list(range(8))
    for name, rounds in won.items():
        for i in rounds:
            content = opened_at(url).get(f"race/{i}", LARGE_BYTES)
            assert content == content_of(f"{name}/{i}", len(content))


def test_a_writer_that_is_killed_leaves_nothing_to_be_seen(weed: Weed) -> None:
    url = weed.url()
    objects = opened_at(url)
    with running("stall", url, "run/k", 40, file=PROGRAMS, **VARIABLES) as writer:
        assert writer.line() == "stalled"
        assert (objects.head("run/k"), objects.listing()) == (None, [])
        writer.kill()
    assert (objects.head("run/k"), objects.listing(), own(url)) == (None, [], [])
    assert objects.put("run/k", b"x")


def test_an_upload_goes_on_after_its_process_was_killed(weed: Weed) -> None:
    url = weed.url()
    objects = opened_at(url)
    with running("append_for_ever", url, "u", file=PROGRAMS, **VARIABLES) as writer:
        said = [int(writer.line()) for _ in range(5)]
        writer.kill()
    size_bytes = objects.begin("u")
    assert size_bytes >= said[-1]
    assert objects.finish("u", "k", digest_of(pattern(0, size_bytes)))


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_a_put_whose_reply_is_lost_is_won_all_the_same(weed: Weed) -> None:
    with Proxy(weed.port) as proxy:
        objects = opened_at(weed.url().replace(str(weed.port), str(proxy.port)))
        proxy.lose_a_reply()
        assert objects.put("k", b"x")
        assert (proxy.lost, objects.get("k", 10)) == (1, b"x")
        assert not objects.put("k", b"x")


def test_damage_is_found_by_the_digest(weed: Weed, tmp_path: Path) -> None:
    url = weed.url()
    objects = opened_at(url)
    content = content_of("x", LARGE_BYTES)
    bucket_at(url).write("k", iter([content[:-1], b"?"]))
    with pytest.raises(ObjectCorrupt, match=f"the digest should be {digest_of(content)}"):
        objects.fetch("k", tmp_path / "copy", digest_of(content))
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there_is_told_soon() -> None:
    objects = opened_at("s3://bucket?endpoint=http://127.0.0.1:1", timeout_s=0.5)
    calls = (lambda: objects.put("k", b"x"), lambda: objects.head("k"), objects.listing, lambda: objects.begin("u"))
    for call in calls:
        with pytest.raises(ObjectsUnreachable, match="is it running, and is the endpoint right"):
            call()


def test_a_server_that_says_nothing_is_told_and_the_same_works_later(tmp_path: Path) -> None:
    with Weed(tmp_path) as weed:
        objects = opened_at(weed.url(), timeout_s=0.5)
        with weed.stopped():
            for content in (b"x", content_of("large", LARGE_BYTES)):
                with pytest.raises(ObjectsUnreachable):
                    objects.put("k", content)
        assert isinstance(opened_at(weed.url()).put("k", b"x"), bool)


def test_chunks_are_not_asked_for_when_the_server_is_gone() -> None:
    """Whoever makes them for ever would never be told."""

    def for_ever() -> Iterator[bytes]:
        while True:
            yield bytes(1024 * 1024)

    bucket = Bucket(parse_objects("s3://bucket?endpoint=http://127.0.0.1:1"), KEYS, timeout_s=0.2)
    with pytest.raises(ObjectsUnreachable):
        bucket.write("k", for_ever())


def test_wrong_keys_are_told_and_not_shown(weed: Weed) -> None:
    objects = S3Objects(parse_objects(weed.url()), {"access_key_id": "tests", "secret_access_key": "my-own-secret"})
    for call in (lambda: objects.put("k", b"x"), lambda: objects.head("k"), lambda: objects.get("k", 1)):
        with pytest.raises(ObjectsDenied, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") as caught:
            call()
        assert "my-own-secret" not in f"{caught.value} {objects!r} {vars(caught.value)}"


def test_a_bucket_that_is_not_there_is_told(weed: Weed) -> None:
    objects = opened_at(weed.url("another"))
    with pytest.raises(ObjectsBroken, match="there is no such bucket; create it, or correct its name"):
        objects.listing("run")


def test_the_endpoint_of_the_url_wins_over_the_environment(weed: Weed, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_BUCKET", "somewhere-else")
    objects = opened_at(weed.url(), timeout_s=2.0)
    assert objects.put("k", b"x")
