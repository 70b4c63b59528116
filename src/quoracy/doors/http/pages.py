"""The page for people: HTML, style, script and icon, all of them from this package."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from quoracy.doors.http.answers import Answer
from quoracy.doors.http.house import House
from quoracy.doors.http.reading import Asked

FOLDER: Final = Path(__file__).parent / "page"
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'"
)
MEDIA: Final = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}


@cache
def _read(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def _page(name: str) -> Answer:
    media = MEDIA[Path(name).suffix]
    return Answer(_read(name), media=media, headers=((b"content-security-policy", POLICY),), private=False)


async def page(_house: House, _asked: Asked) -> Answer:
    return _page("docs.html")


async def style(_house: House, _asked: Asked) -> Answer:
    return _page("docs.css")


async def script(_house: House, _asked: Asked) -> Answer:
    return _page("docs.js")


async def icon(_house: House, _asked: Asked) -> Answer:
    return _page("docs.svg")
