"""The suite that every object store must pass; see ``quoracy.testing.journal`` for how to use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier, Event

from blake3 import blake3

from quoracy.core.errors import DigestMismatch, ObjectCorrupt, ObjectMissing, ObjectTooLarge, UploadOffset
from quoracy.ports.objects import MAX_APPEND_BYTES, MAX_KEY_CHARS, MAX_PART_CHARS, Objects
from quoracy.testing.expect import PATIENCE_S, Together, equal, opened, raises, true

OpenObjects = Callable[[], Objects]
ObjectsCheck = Callable[[OpenObjects], None]

LARGE_BYTES = 17 * 1024 * 1024 + 11
"""More than any store takes with one request."""
BAD_KEYS = (
    "", "/", "/etc/passwd", "a/", "a//b", "..", "../a", "a/..", "a/../b", ".", "./a", "a/./b", ".hidden", "a/.hidden",
    "-option", "a b", "a\\b", "a\0b", "a\nb", "a?b", "a*", "~a", "a%2e", "ä", "走", "x" * (MAX_PART_CHARS + 1),
    "/".join(["x" * 100] * 6),
)  # fmt: skip
"""Keys that have led somebody out of a folder, into another object, or into trouble."""
GOOD_KEYS = (
    "a", "0", "_", "=a", "a.b", "a..b", "a-", "run/blobs/" + "0f" * 32, "run/12/global", "run/12/A", "run/12/a",
    "x" * MAX_PART_CHARS, "/".join(["y" * 127] * 4)[:MAX_KEY_CHARS],
)  # fmt: skip


def content_of(seed: str, size_bytes: int) -> bytes:
    """So many bytes, always the same."""
    return blake3(seed.encode()).digest(length=size_bytes)


def digest_of(content: bytes) -> str:
    return str(blake3(content).hexdigest())


def keys_of(objects: Objects, prefix: str = "") -> list[str]:
    return sorted(found.key for found in objects.listing(prefix))


# -- putting and getting -----------------------------------------------------------------------------------------------


def what_was_put_is_there_for_every_handle(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects, opened(open_objects) as other:
        for key in GOOD_KEYS:
            equal((other.head(key), other.put(key, key.encode())), (None, True), f"{key} before and while it is put")
            equal((objects.head(key), objects.get(key, 1000)), (len(key), key.encode()), key)
    with opened(open_objects) as objects:
        for key in GOOD_KEYS:
            equal(objects.get(key, 1000), key.encode(), f"{key} after opening again")
            path = objects.local_path(key)
            equal(path and path.read_bytes(), path and key.encode(), f"the local file of {key}")
        equal(keys_of(objects), sorted(GOOD_KEYS), "keys")


def a_key_is_created_once_and_never_replaced(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects, opened(open_objects) as other, TemporaryDirectory() as folder:
        file = Path(folder, "file")
        file.write_bytes(b"else")
        equal(objects.put("a/b", b"one"), True, "the first put")
        for handle in (objects, other):
            equal(handle.put("a/b", b"one"), False, "a put of the same bytes")
            equal(handle.put("a/b", b"else"), False, "a put of other bytes")
            equal(handle.put_file("a/b", file), False, "a put of a file")
            equal(handle.put_chunks("a/b", iter([b"el", b"se"])), False, "a put of chunks")
            equal(handle.put("a/b", content_of("large", LARGE_BYTES)), False, "a large put")
            equal(handle.get("a/b", 1000), b"one", "what is there")
        equal(keys_of(objects), ["a/b"], "keys")


def every_way_of_putting_stores_the_same(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects, TemporaryDirectory() as folder:
        file = Path(folder, "file")
        for size_bytes in (0, 1, 100_000, LARGE_BYTES):
            content = content_of("x", size_bytes)
            digest = digest_of(content)
            file.write_bytes(content)
            equal(objects.put(f"{size_bytes}/bytes", content, digest), True, "put")
            equal(objects.put_file(f"{size_bytes}/file", file, digest), True, "put_file")
            given = Path(folder, f"given-{size_bytes}")
            given.write_bytes(content)
            equal(objects.put_file(f"{size_bytes}/given", given, digest, True), True, "put_file of a given file")
            given.unlink()
            equal(objects.put_chunks(f"{size_bytes}/chunks", _cut(content), digest), True, "put_chunks")
            for how in ("bytes", "file", "given", "chunks"):
                key = f"{size_bytes}/{how}"
                equal(objects.head(key), size_bytes, f"the size of {key}")
                true(objects.get(key, size_bytes) == content, f"{key} came back changed")
                true(b"".join(objects.chunks(key)) == content, f"{key} came back changed in chunks")


def _cut(content: bytes) -> Iterator[bytes]:
    yield b""
    for start in range(0, len(content), 1_234_567):
        yield content[start : start + 1_234_567]


def what_is_not_what_its_digest_says_is_not_stored(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects, TemporaryDirectory() as folder:
        file = Path(folder, "file")
        wrong = digest_of(b"something else")
        for content in (b"", b"small", content_of("large", LARGE_BYTES)):
            file.write_bytes(content)
            raises(DigestMismatch, "put", objects.put, "k", content, wrong)
            raises(DigestMismatch, "put_file", objects.put_file, "k", file, wrong)
            raises(DigestMismatch, "put_file of a file that is given", objects.put_file, "k", file, wrong, True)
            error = raises(DigestMismatch, "put_chunks", objects.put_chunks, "k", iter([content]), wrong)
            equal((error.key, error.wanted, error.found), ("k", wrong, digest_of(content)), "what it says")
            equal((objects.head("k"), keys_of(objects)), (None, []), "what is there")
        raises(ValueError, "a digest that is none", objects.put, "k", b"small", "abc")
        raises(ValueError, "a digest in capitals", objects.put, "k", b"small", digest_of(b"small").upper())


def chunks_that_fail_leave_nothing(open_objects: OpenObjects) -> None:
    def failing(chunk: bytes, error: Exception) -> Iterator[bytes]:
        yield chunk
        raise error

    with opened(open_objects) as objects, TemporaryDirectory() as folder:
        for chunk in (b"small", content_of("large", LARGE_BYTES)):
            for error in (RuntimeError("no more"), FileNotFoundError("gone"), OSError(28, "No space left")):
                raised = raises(type(error), "put_chunks", objects.put_chunks, "k", failing(chunk, error))
                true(raised is error, f"another error than that of the chunks: {raised!r}")
                equal((objects.head("k"), keys_of(objects)), (None, []), "what is there")
        raises(FileNotFoundError, "a file that is not there", objects.put_file, "k", Path(folder, "missing"))


def a_range_is_what_was_asked_for(open_objects: OpenObjects) -> None:
    content = content_of("x", LARGE_BYTES)
    with opened(open_objects) as objects:
        objects.put("k", content)
        objects.put("empty", b"")
        for start in (0, 1, 9_000_000, LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + 1):
            for size_bytes in (0, 1, 10, 8 * 1024 * 1024 + 1, LARGE_BYTES):
                wanted = content[start : start + size_bytes]
                true(objects.get_range("k", start, size_bytes) == wanted, f"{size_bytes} bytes from {start}")
            true(b"".join(objects.chunks("k", start)) == content[start:], f"chunks from {start}")
        equal((objects.get_range("empty", 0, 10), list(objects.chunks("empty"))), (b"", []), "an empty object")
        raises(ValueError, "a negative start", objects.get_range, "k", -1, 10)
        raises(ValueError, "a negative size", objects.get_range, "k", 0, -1)
        raises(ValueError, "chunks from a negative start", objects.chunks, "k", -1)


def a_whole_object_is_given_only_if_it_is_not_too_large(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects:
        objects.put("k", b"12345")
        equal(objects.get("k", 5), b"12345", "as large as allowed")
        error = raises(ObjectTooLarge, "larger than allowed", objects.get, "k", 4)
        equal((error.key, error.size_bytes, error.max_bytes), ("k", 5, 4), "what it says")


def what_is_missing_is_told(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects, TemporaryDirectory() as folder:
        objects.put("folder/k", b"x")
        target = Path(folder, "target")
        for key in ("k", "folder", "folder/k2"):
            equal((objects.head(key), objects.local_path(key), objects.delete(key)), (None, None, False), key)
            for call, arguments in (
                (objects.get, (10,)), (objects.get_range, (0, 10)), (objects.chunks, ()), (objects.fetch, (target,)),
                (objects.alias, ("other",)),
            ):  # fmt: skip
                error = raises(ObjectMissing, f"{call.__name__} of {key}", call, key, *arguments)
                equal(error.key, key, "what it names")
        equal((list(Path(folder).iterdir()), keys_of(objects)), ([], ["folder/k"]), "what is there")


def a_fetched_file_is_whole_and_right_or_not_there(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects, TemporaryDirectory() as folder:
        for size_bytes in (0, 10, LARGE_BYTES):
            content, path = content_of("x", size_bytes), Path(folder, str(size_bytes))
            objects.put(f"k{size_bytes}", content)
            equal(objects.fetch(f"k{size_bytes}", path, digest_of(content)), size_bytes, "fetch")
            true(path.read_bytes() == content, "a fetched file is not what was put")
            path.write_bytes(b"before")
            wrong = digest_of(b"something else")
            error = raises(ObjectCorrupt, "fetch of another digest", objects.fetch, f"k{size_bytes}", path, wrong)
            equal(
                (error.key, path.read_bytes()), (f"k{size_bytes}", b"before"), "what is there after a fetch that failed"
            )
            objects.fetch(f"k{size_bytes}", path)
            true(path.read_bytes() == content, "a fetched file does not replace the one before")
            path.write_bytes(b"mine")
            true(objects.get(f"k{size_bytes}", size_bytes) == content, "writing to a fetched file changes the object")
        equal(len(list(Path(folder).iterdir())), 3, "files")


# -- aliases, listing, deleting ----------------------------------------------------------------------------------------


def an_alias_is_another_name_and_may_be_moved(open_objects: OpenObjects) -> None:
    large = content_of("large", LARGE_BYTES)
    with opened(open_objects) as objects, opened(open_objects) as other:
        objects.put("blobs/one", b"one")
        objects.put("blobs/two", large)
        for source, content in (("one", b"one"), ("two", large), ("two", large), ("one", b"one")):
            objects.alias(f"blobs/{source}", "7/global")
            true(other.get("7/global", LARGE_BYTES) == content, f"the alias of {source}")
        objects.alias("7/global", "8/global")
        objects.alias("8/global", "8/global")
        equal(objects.put("8/global", b"else"), False, "putting where an alias is")
        true(objects.delete("blobs/one") and objects.delete("7/global"), "deleting what an alias was made of")
        equal(other.get("8/global", 10), b"one", "an alias whose source is gone")
        equal(keys_of(objects), ["8/global", "blobs/two"], "keys")


def an_alias_that_is_moved_is_there_all_the_time(open_objects: OpenObjects) -> None:
    contents = [content_of(f"{i}", 300_000) for i in range(2)]
    over = Event()
    with opened(open_objects) as objects, opened(open_objects) as other:
        for i, content in enumerate(contents):
            objects.put(f"blobs/{i}", content)
        objects.alias("blobs/0", "global")

        def move() -> None:
            for i in range(60):
                objects.alias(f"blobs/{i % 2}", "global")
            over.set()

        with Together() as together:
            together.call(move)
            seen = 0
            while not over.is_set() or not seen:
                try:
                    true(other.get("global", 300_000) in contents, "half of one and half of another")
                    seen += 1
                except ObjectCorrupt:
                    continue
        equal(keys_of(objects), ["blobs/0", "blobs/1", "global"], "keys")


def a_listing_gives_every_object_of_a_folder_once(open_objects: OpenObjects) -> None:
    keys = [f"run/{i % 3}/{i}" for i in range(12)] + ["run-a/x", "run.b/x", "run0", "runs/0/1", "=/a", "z"]
    with opened(open_objects) as objects:
        equal(objects.listing(), [], "an empty store")
        for key in keys:
            objects.put(key, key.encode())
        objects.begin("upload")
        for prefix in ("", "run", "run/1", "runs", "run/1/1", "nothing", "ru"):
            inside = [key for key in keys if not prefix or key.startswith(prefix + "/")]
            whole = objects.listing(prefix)
            equal(sorted(found.key for found in whole), sorted(inside), f"all in {prefix!r}")
            equal({found.key: found.size_bytes for found in whole}, {key: len(key) for key in inside}, "sizes")
            for limit in (1, 5):
                pages, after = [], ""
                while page := objects.listing(prefix, after, limit):
                    true(len(page) <= limit, f"a page of {len(page)}, at most {limit}")
                    pages += page
                    true(len(pages) <= len(whole), f"pages of {limit} in {prefix!r} have no end")
                    after = page[-1].key
                equal(pages, whole, f"pages of {limit} in {prefix!r}")
        raises(ValueError, "no limit", objects.listing, "", "", 0)
        raises(ValueError, "a bad prefix", objects.listing, "../")


def what_is_deleted_is_gone_and_may_come_back(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects, opened(open_objects) as other:
        for content in (b"one", content_of("large", LARGE_BYTES), b"three", content_of("larger", LARGE_BYTES + 1)):
            equal(objects.put("a/b/c", content), True, "put")
            true(other.get("a/b/c", LARGE_BYTES + 1) == content, "what is there")
            equal((other.delete("a/b/c"), other.delete("a/b/c"), objects.head("a/b/c")), (True, False, None), "delete")
        equal(keys_of(objects), [], "keys")


def a_bad_key_is_refused_and_changes_nothing(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects, TemporaryDirectory() as folder:
        objects.put("k", b"x")
        for key in BAD_KEYS:
            for call, arguments in (
                (objects.put, (b"x",)), (objects.put_file, (Path(folder),)), (objects.put_chunks, ([b"x"],)),
                (objects.get, (10,)), (objects.get_range, (0, 1)), (objects.chunks, ()), (objects.head, ()),
                (objects.fetch, (Path(folder, "x"),)), (objects.local_path, ()), (objects.alias, ("k2",)),
                (objects.delete, ()),
            ):  # fmt: skip
                error = raises(ValueError, f"{call.__name__} of {key!r}", call, key, *arguments)
                true(str(error).startswith("key = ") or "source" in str(error), f"this does not name the key: {error}")
            raises(ValueError, f"alias to {key!r}", objects.alias, "k", key)
            raises(ValueError, f"upload {key!r}", objects.begin, key)
        equal((keys_of(objects), list(Path(folder).iterdir())), (["k"], []), "what is there")


# -- several at once ---------------------------------------------------------------------------------------------------


def of_those_who_create_at_once_one_wins(open_objects: OpenObjects) -> None:
    def create(key: str, content: bytes, start: Barrier) -> bytes | None:
        with opened(open_objects) as objects:
            start.wait(PATIENCE_S)
            return content if objects.put(key, content, digest_of(content)) else None

    for turn, size_bytes in enumerate((10, 10, 10, 200_000, LARGE_BYTES)):
        start = Barrier(4)
        with Together() as together:
            for i in range(4):
                together.call(create, f"race/{turn}", content_of(f"{turn}/{i}", size_bytes), start)
        winners = [content for content in together.results if content is not None]
        equal(len(winners), 1, f"winners among four with {size_bytes} bytes")
        with opened(open_objects) as objects:
            true(objects.get(f"race/{turn}", size_bytes) == winners[0], "what is there is not the winner's")


def putting_and_deleting_side_by_side_does_no_harm(open_objects: OpenObjects) -> None:
    def come_and_go(me: str) -> None:
        with opened(open_objects) as objects:
            for i in range(40):
                equal(objects.put(f"run/{i % 2}/deep/{me}", b"x"), True, f"put {i} of {me}")
                objects.alias(f"run/{i % 2}/deep/{me}", f"other/{me}")
                equal(objects.delete(f"run/{i % 2}/deep/{me}"), True, f"delete {i} of {me}")
                equal(objects.delete(f"other/{me}"), True, f"delete of the alias {i} of {me}")

    with Together() as together:
        for me in "abc":
            together.call(come_and_go, me)
    with opened(open_objects) as objects:
        equal(keys_of(objects), [], "keys")


# -- uploads -----------------------------------------------------------------------------------------------------------


def an_upload_goes_on_where_it_was_interrupted(open_objects: OpenObjects) -> None:
    content = content_of("x", LARGE_BYTES)
    with opened(open_objects) as objects:
        equal((objects.offset("u"), objects.begin("u"), objects.offset("u")), (None, 0, 0), "an upload that begins")
        equal((objects.append("u", 0, content[:1000]), objects.append("u", 1000, b"")), (1000, 1000), "appends")
        for offset in (0, 999, 1001):
            error = raises(UploadOffset, f"an append at {offset}", objects.append, "u", offset, b"x")
            equal((error.upload, error.offset, error.at), ("u", offset, 1000), "what it says")
    with opened(open_objects) as objects:
        at = objects.begin("u")
        equal((at, keys_of(objects)), (1000, []), "where it stands after opening again, and what is to be seen")
        while at < len(content):
            at = objects.append("u", at, content[at : at + 5_000_000])
        equal(objects.finish("u", "run/blob", digest_of(content)), True, "finish")
        true(objects.get("run/blob", LARGE_BYTES) == content, "an upload came out changed")
        equal((objects.offset("u"), keys_of(objects)), (None, ["run/blob"]), "what is left")
        objects.begin("u")
        objects.append("u", 0, content[:10])
        true(objects.get("run/blob", LARGE_BYTES) == content, "a new upload of the name changed the object")
        equal(objects.finish("u", "run/blob", digest_of(content[:10])), False, "finish where something is")
        true(objects.get("run/blob", LARGE_BYTES) == content, "an upload replaced an object")
        raises(ValueError, "too much at once", objects.append, "u", 0, bytes(MAX_APPEND_BYTES + 1))


def an_upload_that_is_not_what_its_digest_says_is_thrown_away(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects:
        objects.begin("u")
        objects.append("u", 0, b"damaged")
        raises(ValueError, "finish without a digest", objects.finish, "u", "k", "")
        raises(DigestMismatch, "finish", objects.finish, "u", "k", digest_of(b"right"))
        equal((objects.offset("u"), objects.head("k"), keys_of(objects)), (None, None, []), "what is left")
        equal(objects.begin("u"), 0, "beginning anew")
        equal(objects.finish("u", "empty", digest_of(b"")), True, "an empty upload")
        equal(objects.get("empty", 10), b"", "what is there")


def an_upload_nobody_has_begun_is_missing(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects:
        objects.abandon("u")
        equal(objects.offset("u"), None, "an upload nobody has begun")
        raises(ObjectMissing, "append", objects.append, "u", 0, b"x")
        raises(ObjectMissing, "finish", objects.finish, "u", "k", digest_of(b""))
        objects.begin("u")
        objects.append("u", 0, b"x")
        objects.abandon("u")
        equal((objects.offset("u"), objects.begin("u")), (None, 0), "after abandoning it")


def of_those_who_append_at_once_one_wins(open_objects: OpenObjects) -> None:
    def append(offset: int, letter: bytes, start: Barrier) -> bytes:
        with opened(open_objects) as objects:
            start.wait(PATIENCE_S)
            try:
                objects.append("u", offset, letter * 1000)
            except UploadOffset as error:
                equal(error.at, offset + 1000, "where it stands")
                return b""
            return letter

    wanted = b""
    with opened(open_objects) as objects:
        objects.begin("u")
        for offset in range(0, 5000, 1000):
            start = Barrier(3)
            with Together() as together:
                for letter in (b"a", b"b", b"c"):
                    together.call(append, offset, letter, start)
            (winner,) = [letter for letter in together.results if letter]
            wanted += winner * 1000
        equal(objects.finish("u", "k", digest_of(wanted)), True, "finish")
        equal(objects.get("k", 5000), wanted, "what is there")


def a_sweep_removes_what_nobody_goes_on_with(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects, opened(open_objects) as other:
        objects.put("k", content_of("large", LARGE_BYTES))
        for upload in ("u", "v"):
            objects.begin(upload)
            objects.append(upload, 0, b"x")
        equal((other.sweep(3600.0), objects.offset("u"), objects.offset("v")), (0, 1, 1), "a sweep of what is old")
        equal((other.sweep(0.0), objects.offset("u"), objects.offset("v")), (2, None, None), "a sweep of everything")
        equal((other.sweep(0.0), objects.head("k"), keys_of(objects)), (0, LARGE_BYTES, ["k"]), "what is left")


def closing_twice_is_fine_and_nothing_works_afterwards(open_objects: OpenObjects) -> None:
    with opened(open_objects) as objects, TemporaryDirectory() as folder:
        objects.close()
        objects.close()
        digest = digest_of(b"")
        for call, arguments in (
            (objects.put, ("k", b"x")), (objects.put_chunks, ("k", [b"x"])), (objects.alias, ("k", "k2")),
            (objects.delete, ("k",)), (objects.head, ("k",)), (objects.get, ("k", 1)), (objects.get_range, ("k", 0, 1)),
            (objects.chunks, ("k",)), (objects.fetch, ("k", Path(folder, "x"))), (objects.local_path, ("k",)),
            (objects.listing, ()), (objects.begin, ("u",)), (objects.offset, ("u",)), (objects.append, ("u", 0, b"x")),
            (objects.finish, ("u", "k", digest)), (objects.abandon, ("u",)), (objects.sweep, (0.0,)),
        ):  # fmt: skip
            raises(ValueError, f"{call.__name__} after close", call, *arguments)


OBJECTS_CHECKS: tuple[ObjectsCheck, ...] = (
    what_was_put_is_there_for_every_handle,
    a_key_is_created_once_and_never_replaced,
    every_way_of_putting_stores_the_same,
    what_is_not_what_its_digest_says_is_not_stored,
    chunks_that_fail_leave_nothing,
    a_range_is_what_was_asked_for,
    a_whole_object_is_given_only_if_it_is_not_too_large,
    what_is_missing_is_told,
    a_fetched_file_is_whole_and_right_or_not_there,
    an_alias_is_another_name_and_may_be_moved,
    an_alias_that_is_moved_is_there_all_the_time,
    a_listing_gives_every_object_of_a_folder_once,
    what_is_deleted_is_gone_and_may_come_back,
    a_bad_key_is_refused_and_changes_nothing,
    of_those_who_create_at_once_one_wins,
    putting_and_deleting_side_by_side_does_no_harm,
    an_upload_goes_on_where_it_was_interrupted,
    an_upload_that_is_not_what_its_digest_says_is_thrown_away,
    an_upload_nobody_has_begun_is_missing,
    of_those_who_append_at_once_one_wins,
    a_sweep_removes_what_nobody_goes_on_with,
    closing_twice_is_fine_and_nothing_works_afterwards,
)


def check_objects(fresh: Callable[[], AbstractContextManager[OpenObjects]]) -> None:
    for check in OBJECTS_CHECKS:
        with fresh() as open_objects:
            check(open_objects)
