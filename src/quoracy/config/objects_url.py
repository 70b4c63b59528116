"""Where objects are kept: ``file:///absolute/folder`` or a plain path, ``memory://``, or
``s3://bucket/prefix?endpoint=https://host:port&region=name``.

A URL never holds credentials: URLs are shown, logged and handed on. One that looks as if it did is refused, and what
was in it is not repeated.
"""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from quoracy.core.errors import ConfigError

MAX_PREFIX: Final = 256
FIX: Final = "write a folder or file:///FOLDER, memory://, or s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=NAME"
CREDENTIALS: Final = "credentials come from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_=][A-Za-z0-9._=-]*(/[A-Za-z0-9_=][A-Za-z0-9._=-]*)*")
_REGION: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


class ObjectsAddress(msgspec.Struct, frozen=True):
    kind: Literal["file", "memory", "s3"]
    folder: str = ""
    bucket: str = ""
    prefix: str = ""
    """In the bucket; everything is below it."""
    endpoint: str = ""
    """Empty: Amazon's own, of the region."""
    region: str = ""
    anonymous: bool = False
    """Ask without credentials."""

    def __str__(self) -> str:
        if self.kind == "memory":
            return "memory://"
        if self.kind == "file":
            return f"file://{quote(self.folder)}" if self.folder.startswith("/") else self.folder
        asked = {"endpoint": self.endpoint, "region": self.region, "anonymous": "true" if self.anonymous else ""}
        query = "&".join(f"{name}={quote(value, safe=':/[]')}" for name, value in asked.items() if value)
        return f"s3://{self.bucket}{'/' + self.prefix if self.prefix else ''}{'?' + query if query else ''}"


def parse_objects(url: str, field: str = "store.objects") -> ObjectsAddress:
    """Raises ConfigError for anything that names no store."""
    scheme, separator, rest = url.partition("://")
    if "\0" in url or not url.strip():
        raise ConfigError(field, url, FIX)
    if not separator:
        return ObjectsAddress("file", folder=url)
    if scheme == "memory" and not rest.strip("/"):
        return ObjectsAddress("memory")
    if scheme == "file":
        folder = unquote(rest)
        if not folder.startswith("/") or not folder.strip("/") or "\0" in folder:
            raise ConfigError(field, url, f"a file URL has three slashes and an absolute folder: {FIX}")
        return ObjectsAddress("file", folder=folder)
    if scheme == "s3":
        return _s3(url, field)
    raise ConfigError(field, _hushed(url), FIX)


def _s3(url: str, field: str) -> ObjectsAddress:
    try:
        parts = urlsplit(url)
        asked = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise ConfigError(field, _hushed(url), FIX) from None
    if "@" in parts.netloc:
        raise ConfigError(field, _hushed(url), f"{CREDENTIALS}; never in the URL")
    settings = dict(asked)
    unknown = [name for name in settings if name not in ("endpoint", "region", "anonymous")]
    if unknown or len(settings) != len(asked) or parts.fragment:
        named = ", ".join(unknown)[:100] or "something twice, or a #"
        raise ConfigError(
            field, _hushed(url), f"this asks for {named}; there are endpoint, region, anonymous; {CREDENTIALS}"
        )
    prefix = unquote(parts.path).strip("/")
    if not _BUCKET.fullmatch(parts.netloc):
        raise ConfigError(field, url, f"a bucket has 3 to 63 characters of a-z, 0-9, . and -: {FIX}")
    if prefix and (len(prefix) > MAX_PREFIX or not _PREFIX.fullmatch(prefix)):
        raise ConfigError(
            field,
            url,
            f"the prefix has at most {MAX_PREFIX} letters, digits and ._=-/, no part begins with a dot: {FIX}",
        )
    region, anonymous = settings.get("region", ""), settings.get("anonymous", "false")
    if region and not _REGION.fullmatch(region):
        raise ConfigError(field, url, f"a region is a name such as eu-central-1: {FIX}")
    if anonymous not in ("true", "false"):
        raise ConfigError(field, url, "anonymous is true or false")
    endpoint = _endpoint(settings.get("endpoint", ""), url, field)
    return ObjectsAddress("s3", "", parts.netloc, prefix, endpoint, region, anonymous == "true")


def _endpoint(text: str, url: str, field: str) -> str:
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigError(field, _hushed(url), f"an endpoint is http://HOST:PORT or https://HOST:PORT: {FIX}")
    return f"{parts.scheme}://{parts.netloc}"


def _hushed(url: str) -> str:
    """The URL without anything that could be a secret."""
    scheme, _, rest = url.partition("://")
    place = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}://{place}/..."
