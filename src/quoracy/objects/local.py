"""Objects as files in a directory: ``<root>/<key>``. For one machine, or several with a shared file system that has
hard links.

A new object is written to ``<root>/.new``, synced, and linked to its name: ``link`` fails if the name is taken, which
is what makes creating exclusive, among processes too. A rename could not do that. Objects are read-only for
everybody, since an alias is the same file under another name. Empty folders go with their last object.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Final

from quoracy.core.errors import DigestMismatch, ObjectMissing, ObjectsBroken, ObjectsDenied, ObjectTooLarge
from quoracy.folders import make_directory, sync_directory
from quoracy.objects.checking import checked, digest_of, file_chunks, trusted
from quoracy.objects.durable import place_file, protect, told, write_new
from quoracy.objects.uploads import Uploads, sweep
from quoracy.objects.walk import Reading, walk
from quoracy.ports.objects import (
    CHUNK_BYTES,
    MAX_PAGE,
    Chunk,
    Listed,
    check_append,
    check_digest,
    check_key,
    check_number,
    check_prefix,
    check_upload,
)

TRIES: Final = 100
"""A folder may vanish while a file is put into it, because somebody deleted the last one there. Not so often."""
NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


class LocalObjects:
    def __init__(self, root: Path | str) -> None:
        """The directory is made if it is not there. On a read-only disk objects can be read."""
        self.root = Path(root).absolute()
        self._new, self._growing = self.root / ".new", self.root / ".partial"
        with told(self.root):
            make_directory(self._new)
            make_directory(self._growing)
        self._uploads = Uploads(self._growing)
        self._closed = False

    def __repr__(self) -> str:
        return f"LocalObjects({str(self.root)!r})"

    # -- writing ------------------------------------------------------------------------------------------------------

    def put(self, key: str, content: bytes, digest: str = "") -> bool:
        return self.put_chunks(key, (content,), digest)

    def put_file(self, key: str, path: Path, digest: str = "", give: bool = False) -> bool:
        if give and (temporary := self._taken(path)) is not None:
            return self._put_taken(key, temporary, digest)
        return self.put_chunks(key, file_chunks(path), digest)

    def _taken(self, path: Path) -> Path | None:
        """A second name for the file, among those of new objects; None if it is on another disk."""
        temporary = self._temporary()
        try:
            os.link(path, temporary)
        except FileNotFoundError:
            raise
        except OSError:
            return None
        return temporary

    def _put_taken(self, key: str, temporary: Path, digest: str) -> bool:
        target = self._path(key)
        try:
            check_digest(digest)
            with told(target):
                if _there(target):
                    return False
            with told(temporary), temporary.open("rb", buffering=0) as file:
                if digest and (found := digest_of(file.fileno())) != digest:
                    raise DigestMismatch(key, digest, found)
                os.fsync(file.fileno())
            return self._publish(temporary, key)
        finally:
            with suppress(OSError):
                temporary.unlink()

    def put_chunks(self, key: str, chunks: Iterable[Chunk], digest: str = "") -> bool:
        target = self._path(key)
        check_digest(digest)
        with told(target):
            if _there(target):
                return False
        temporary = self._temporary()
        write_new(temporary, checked(chunks, key, digest))
        return self._publish(temporary, key)

    def _publish(self, temporary: Path, key: str) -> bool:
        """Give the file its name, unless somebody has it; afterwards the temporary name is gone."""
        target = self._path(key)
        try:
            with told(target):
                protect(temporary)
                return self._enter(key, target, lambda: _linked(temporary, target))
        finally:
            with suppress(OSError):
                temporary.unlink()

    def _enter(self, key: str, target: Path, place: Callable[[], bool]) -> bool:
        """``place`` puts the file into its folder, which is made, and made again if it vanishes meanwhile."""
        for _ in range(TRIES):
            try:
                make_directory(target.parent)
                return place()
            except FileNotFoundError:
                continue
            except IsADirectoryError:
                with suppress(OSError):
                    target.rmdir()
                    continue
                raise ValueError(f"key = {key!r}: other objects are in a folder of this name; choose another") from None
            except (NotADirectoryError, FileExistsError):
                raise ValueError(f"key = {key!r}: a part of it is an object already; choose another") from None
        raise ObjectsBroken(f"{target.parent} vanishes again and again; who deletes it?")

    def alias(self, source: str, key: str) -> None:
        origin, target, temporary = self._path(source), self._path(key), self._temporary()
        try:
            with told(origin):
                try:
                    os.link(origin, temporary)
                except (FileNotFoundError, NotADirectoryError):
                    raise ObjectMissing(source) from None
                except OSError as error:
                    if origin.is_dir():
                        raise ObjectMissing(source) from None
                    if error.errno != errno.EMLINK:
                        raise
                    write_new(temporary, self.chunks(source))
                    protect(temporary)
            with told(target):
                self._enter(key, target, lambda: _moved(temporary, target))
        finally:
            # Also after a rename that succeeded: between two names of one file it does nothing, and both stay.
            with suppress(OSError):
                temporary.unlink()

    def delete(self, key: str) -> bool:
        target = self._path(key)
        with told(target):
            try:
                target.unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return False
            _sync_folder(target)
        for folder in target.parents:
            if folder == self.root:
                break
            try:
                folder.rmdir()
            except OSError:
                break
        return True

    # -- reading ------------------------------------------------------------------------------------------------------

    def head(self, key: str) -> int | None:
        target = self._path(key)
        return target.stat().st_size if target.is_file() else None

    def get(self, key: str, max_bytes: int) -> bytes:
        check_number(max_bytes, "max_bytes")
        reading = self._reading(key)
        if reading.size_bytes > max_bytes:
            reading.close()
            raise ObjectTooLarge(key, reading.size_bytes, max_bytes)
        return b"".join(reading)

    def get_range(self, key: str, start: int, size_bytes: int) -> bytes:
        check_number(size_bytes, "size_bytes")
        reading = self._reading(key, start)
        try:
            return b"".join(_exactly(reading, size_bytes))
        finally:
            reading.close()

    def chunks(self, key: str, start: int = 0) -> Iterator[bytes]:
        return self._reading(key, start)

    def fetch(self, key: str, path: Path, digest: str = "") -> int:
        return place_file(path, trusted(self._reading(key), key, check_digest(digest)))

    def local_path(self, key: str) -> Path | None:
        target = self._path(key)
        return target if target.is_file() else None

    def listing(self, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> list[Listed]:
        self._open()
        check_number(limit, "limit", 1)
        check_prefix(prefix)
        with told(self.root):
            found = walk(self.root / prefix, prefix and prefix + "/", after)
            return list(islice(found, min(limit, MAX_PAGE)))

    # -- uploads ------------------------------------------------------------------------------------------------------

    def begin(self, upload: str) -> int:
        self._open()
        return self._uploads.begin(check_upload(upload))

    def offset(self, upload: str) -> int | None:
        self._open()
        return self._uploads.offset(check_upload(upload))

    def append(self, upload: str, offset: int, content: Chunk) -> int:
        self._open()
        return self._uploads.append(check_upload(upload), offset, check_append(content))

    def finish(self, upload: str, key: str, digest: str) -> bool:
        self._path(key)
        temporary = self._temporary()
        self._uploads.take(check_upload(upload), key, check_digest(digest, needed=True), temporary)
        return self._publish(temporary, key)

    def abandon(self, upload: str) -> None:
        self._open()
        self._uploads.abandon(check_upload(upload))

    def sweep(self, older_than_s: float) -> int:
        self._open()
        return sweep(self._new, older_than_s) + sweep(self._growing, older_than_s)

    def close(self) -> None:
        self._closed = True

    def _reading(self, key: str, start: int = 0) -> Reading:
        path = self._path(key)
        check_number(start, "start")
        with told(path):
            try:
                return Reading(path, start)
            except FileNotFoundError:
                raise ObjectMissing(key) from None

    def _temporary(self) -> Path:
        return self._new / token_hex(16)

    def _path(self, key: str) -> Path:
        self._open()
        return self.root / check_key(key)

    def _open(self) -> None:
        if self._closed:
            raise ValueError("this object store is closed")


def _there(target: Path) -> bool:
    """Whether it is there, and stays: whoever created it may not have synced the folder yet."""
    try:
        there = target.is_file()
        if there:
            sync_directory(target.parent)
    except FileNotFoundError:
        return False
    return there


def _linked(temporary: Path, target: Path) -> bool:
    """Whether this file has the name now; FileNotFoundError if there is no folder, or none any more."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        if target.is_dir():
            raise IsADirectoryError(str(target)) from None
        sync_directory(target.parent)
        return False
    except OSError as error:
        if error.errno in NO_LINKS:
            why = f"{target}: {error.strerror}; objects need a file system with hard links, name another place"
            raise ObjectsDenied(why) from error
        raise
    _sync_folder(target)
    return True


def _sync_folder(target: Path) -> None:
    """A folder that is gone again needs no sync: somebody has deleted the object since, and the folder with it."""
    with suppress(FileNotFoundError):
        sync_directory(target.parent)


def _moved(temporary: Path, target: Path) -> bool:
    temporary.replace(target)
    _sync_folder(target)
    return True


def _exactly(reading: Reading, size_bytes: int) -> Iterator[bytes]:
    while size_bytes and (chunk := reading.read(min(size_bytes, CHUNK_BYTES))):
        size_bytes -= len(chunk)
        yield chunk
