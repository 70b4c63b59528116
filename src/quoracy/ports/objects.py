"""The object port: weights and other large values, under names.

An object is written once and never changes: ``put`` creates or says that something is there. So whoever has read an
object has read it for ever, and a digest in a journal names the same bytes tomorrow. The one thing that may be replaced
is an *alias*, a second name for what another key holds; aliases are for people and plain tools, content is found by its
digest.

Digests are blake3 of the whole content, as 64 lower hex digits. Where one is given, it is checked before anything can
be seen, and "" means that nobody checks.

What is atomic: an object is there whole or not at all, for every reader in every process, also if the writer is killed
in the middle. Of several that create the same key at once one is told True; the others False, and what is there is the
winner's. What is durable: when a put, an alias or a finish has returned, it survives the death of this process and of
the machine, as far as the store itself does.

Over a network one thing is weaker. Servers differ in whether the end of a large upload in parts can be conditional, and
some look first and write then. So an object above the size of one request is uploaded under a name of its own; a small
object that can be created once only, the *claim*, decides whose it is; and it is copied into place by whoever finds it
claimed. A large put that is interrupted between the two is completed by the next one. One case is left: a small and a
large put of different content under the same key at once may both be told True by such a server. Keys that hold a
digest of their content never see it.

How an operation may fail:

``ValueError``          the call itself is wrong: a key, a size. Names which, its value and what would do. Nothing
                        happened.
``ObjectMissing``       nothing is there.
``ObjectCorrupt``       what is stored is not what the digest says, or an alias was replaced while it was read.
``DigestMismatch``      what was offered is not what the digest says. Nothing was stored.
``ObjectTooLarge``      more than the caller wants to take.
``UploadOffset``        the upload stands elsewhere; says where.
``ObjectsUnreachable``  nobody answers, and all tries are used up, in bounded time. A change may or may not have
                        happened, or happen yet: try the same again, since everything here may be done twice.
``ObjectsFull``         no room. Nothing was stored.
``ObjectsDenied``       the store does not let us: credentials, permissions, a read-only disk.
``ObjectsBroken``       anything else that the store failed with. Nothing half is to be seen.

Keys are relative paths of 1 to 512 characters, in parts of at most 128, with a slash between them. A part is of
letters, digits and ``._=-`` and begins with a letter, a digit, ``_`` or ``=``: so there is no ``..``, no hidden file
and nothing that looks like an option. ``key_part`` makes a part of any name. A key must not be the folder of another
one, nor of one that was just deleted: a disk cannot hold both, and some servers forget folders late.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

import msgspec
from blake3 import blake3

MAX_KEY_CHARS: Final = 512
MAX_PART_CHARS: Final = 128
MAX_APPEND_BYTES: Final = 16 * 1024 * 1024
"""Of one ``append``: it is in memory, and one request."""
CHUNK_BYTES: Final = 8 * 1024 * 1024
"""What readers and writers hold in memory at once, more or less."""
MAX_PAGE: Final = 1000
Chunk = bytes | memoryview
"""What is written. Whoever takes one is done with it before it asks for the next."""

_PART: Final = re.compile(rf"[A-Za-z0-9_=][A-Za-z0-9._=-]{{0,{MAX_PART_CHARS - 1}}}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=-]{0,63}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FIX: Final = (
    f"1 to {MAX_KEY_CHARS} characters, in parts of 1 to {MAX_PART_CHARS} with a slash between them, each of letters, "
    "digits and ._=- and beginning with a letter, a digit, _ or ="
)


class Listed(msgspec.Struct, frozen=True):
    key: str
    size_bytes: int


class Objects(Protocol):
    # -- writing ------------------------------------------------------------------------------------------------------

    def put(self, key: str, content: bytes, digest: str = "") -> bool:
        """Create the object; False if something is there, which stays as it is and is not compared."""

    def put_file(self, key: str, path: Path, digest: str = "", give: bool = False) -> bool:
        """The same, from a local file, which is copied. It must not change meanwhile; one that is not there raises
        FileNotFoundError. ``give``: nobody will write to the file any more, so that it need not be copied where a
        second name for it does; the first one is still the caller's, to be deleted."""

    def put_chunks(self, key: str, chunks: Iterable[Chunk], digest: str = "") -> bool:
        """The same, from chunks of any size, holding a few of them at a time. If the key is taken they may not be read
        to the end. What the iterator raises is raised, and nothing is stored."""

    def alias(self, source: str, key: str) -> None:
        """Make ``key`` name what ``source`` holds, in place of whatever it named before. Readers see the old or the
        new, never neither. A hard link on a local disk, a copy made by the server elsewhere: ``source`` may be
        deleted afterwards. Alias only keys that are never put: this is the one operation that replaces."""

    def delete(self, key: str) -> bool:
        """Remove the object; False if it was not there. Readers that have begun on a local disk go on to its end;
        elsewhere they may fail with ObjectMissing. A store that cannot tell both ways apart looks first, so of two that
        delete at once both may be told True."""

    # -- reading ------------------------------------------------------------------------------------------------------

    def head(self, key: str) -> int | None:
        """How many bytes there are; None if there is no such object."""

    def get(self, key: str, max_bytes: int) -> bytes:
        """All of it, if it is not larger than that."""

    def get_range(self, key: str, start: int, size_bytes: int) -> bytes:
        """So many bytes from ``start``: fewer at the end of the object, none beyond it."""

    def chunks(self, key: str, start: int = 0) -> Iterator[bytes]:
        """From ``start`` to the end, in chunks of at most CHUNK_BYTES. Raises ObjectMissing at once, not at the first
        chunk. All of it is of the same object, also if an alias is replaced meanwhile: then it ends with ObjectCorrupt,
        or with what was there when it began."""

    def fetch(self, key: str, path: Path, digest: str = "") -> int:
        """Copy the object into a local file, replacing one that is there, and return its size. The file is not to be
        seen before it is complete and its digest right."""

    def local_path(self, key: str) -> Path | None:
        """Where the object lies, if it is a plain local file that may be memory-mapped. None if it is not, and then
        ``fetch`` gets it, or says that it is missing. It must not be written to. What was mapped stays, also if the
        object is deleted."""

    def listing(self, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> list[Listed]:
        """The objects in the folder ``prefix`` and the folders in it ("": all), at most ``limit``. The order is the
        store's own and always the same; the next page is asked for with the last key as ``after``. Objects that come
        or go meanwhile may be in it or not, all others are, once."""

    # -- uploads that go on where they were interrupted ---------------------------------------------------------------

    def begin(self, upload: str) -> int:
        """Begin an upload under this name, or go on with it; returns how many bytes are there. A name is one part of a
        key; it is not a key, and whoever may not know it must not guess it."""

    def offset(self, upload: str) -> int | None:
        """How many bytes are there; None if nobody has begun it."""

    def append(self, upload: str, offset: int, content: Chunk) -> int:
        """Add to the end, which must be at ``offset``; returns where it is then. Raises UploadOffset if it is
        elsewhere, so one that is sent twice counts once, and of two at once one counts. ObjectMissing if nobody has
        begun it. What was appended survives the death of this process; if the machine dies, some of it may be lost or
        damaged, which ``finish`` notices."""

    def finish(self, upload: str, key: str, digest: str) -> bool:
        """Check the digest and create the object, as ``put``; then the upload is gone. On DigestMismatch it is gone as
        well, since nothing that is appended could mend it."""

    def abandon(self, upload: str) -> None:
        """Throw the upload away; unknown ones are fine."""

    def sweep(self, older_than_s: float) -> int:
        """Remove uploads to which nothing was added for so long, and what killed writers left; returns how many. Only
        the store's own clock counts. A writer or an upload that is slower than that loses its work."""

    def close(self) -> None:
        """Let go of everything. A second close is fine; any other call after it raises ``ValueError``."""


# -- what every store checks -------------------------------------------------------------------------------------------


def is_part(name: str) -> bool:
    return _PART.fullmatch(name) is not None


def check_key(key: str, field: str = "key") -> str:
    if len(key) > MAX_KEY_CHARS or not all(_PART.fullmatch(part) for part in key.split("/")):
        raise ValueError(f"{field} = {_short(key)}: {_FIX}")
    return key


def check_prefix(prefix: str) -> str:
    return check_key(prefix, "prefix") if prefix else prefix


def check_upload(upload: str) -> str:
    if not _PART.fullmatch(upload):
        raise ValueError(f"upload = {_short(upload)}: one part of a key, without a slash: {_FIX}")
    return upload


def check_digest(digest: str, needed: bool = False) -> str:
    if (digest or needed) and not _DIGEST.fullmatch(digest):
        raise ValueError(f"digest = {_short(digest)}: 64 lower hex digits, the blake3 of the content")
    return digest


def check_number(value: int, field: str, least: int = 0) -> int:
    if value < least:
        raise ValueError(f"{field} = {value}: at least {least}")
    return value


def check_append(content: Chunk) -> Chunk:
    if len(content) > MAX_APPEND_BYTES:
        raise ValueError(f"content = {len(content)} bytes: at most {MAX_APPEND_BYTES} at once; append in pieces")
    return content


def key_part(name: str) -> str:
    """A part of a key for any name: the name itself if it is plain and short, else a digest of it."""
    if _PLAIN.fullmatch(name):
        return name
    return "=" + blake3(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _short(text: str) -> str:
    return repr(text) if len(text) <= 80 else f"{text[:60]!r}... ({len(text)} characters)"
