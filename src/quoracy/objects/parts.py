"""Uploads in a bucket: each append is an object of its own, named by its offset, so that of two at the same offset one
wins. ``.partial/NAME/begun`` says that there is such an upload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from quoracy.core.errors import DigestMismatch, ObjectMissing, UploadOffset
from quoracy.objects.bucket import Bucket
from quoracy.ports.objects import Chunk

Put = Callable[[Iterable[bytes]], bool]
Part = tuple[int, int]
"""Offset, size."""


class Parts:
    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def begin(self, upload: str) -> int:
        self._bucket.create(f".partial/{upload}/begun", b"")
        return self.offset(upload) or 0

    def offset(self, upload: str) -> int | None:
        parts = self._parts(upload)
        return None if parts is None else _end(parts)

    def append(self, upload: str, offset: int, content: Chunk) -> int:
        at = self._at(upload)
        if at == offset and not content:
            return at
        if at != offset or not self._bucket.create(f".partial/{upload}/{offset:020}", bytes(content)):
            raise UploadOffset(upload, offset, self._at(upload))
        return offset + len(content)

    def finish(self, upload: str, put: Put) -> bool:
        parts = self._parts(upload)
        if parts is None:
            raise ObjectMissing(upload, "upload")
        try:
            created = put(self._content(upload, parts))
        except DigestMismatch:
            self.abandon(upload)
            raise
        self.abandon(upload)
        return created

    def abandon(self, upload: str) -> None:
        self._bucket.drop(f".partial/{upload}/begun")
        for name, _, _ in list(self._bucket.names(f".partial/{upload}")):
            self._bucket.drop(name)

    def sweep(self, before_s: float) -> int:
        newest: dict[str, float] = {}
        for name, _, at_s in self._bucket.names(".partial"):
            upload = name.split("/")[1]
            newest[upload] = max(at_s, newest.get(upload, at_s))
        stale = [upload for upload, at_s in newest.items() if at_s <= before_s]
        for upload in stale:
            self.abandon(upload)
        return len(stale)

    def _content(self, upload: str, parts: list[Part]) -> Iterator[bytes]:
        for offset, _ in parts:
            yield from self._bucket.read(f".partial/{upload}/{offset:020}")

    def _at(self, upload: str) -> int:
        at = self.offset(upload)
        if at is None:
            raise ObjectMissing(upload, "upload")
        return at

    def _parts(self, upload: str) -> list[Part] | None:
        """Those that follow each other from the beginning; None if the upload was not begun. One that was sent to an
        upload that was just thrown away may lie beyond: it is nobody's."""
        begun, found = False, {}
        for name, size_bytes, _ in self._bucket.names(f".partial/{upload}"):
            last = name.rpartition("/")[2]
            if last == "begun":
                begun = True
            else:
                found[int(last)] = size_bytes
        parts: list[Part] = []
        while (at := _end(parts)) in found:
            parts.append((at, found[at]))
        return parts if begun else None


def _end(parts: list[Part]) -> int:
    return sum(parts[-1]) if parts else 0
