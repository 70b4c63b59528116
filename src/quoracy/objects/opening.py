"""An object store by its URL."""

from __future__ import annotations

import os
from typing import Final

from quoracy.config.objects_url import CREDENTIALS, ObjectsAddress, parse_objects
from quoracy.core.errors import ConfigError
from quoracy.objects.local import LocalObjects
from quoracy.objects.memory import MemoryObjects
from quoracy.ports import Objects

ROLES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Variables that say where credentials are."""


def open_objects(url: str, field: str = "store.objects", timeout_s: float = 30.0) -> Objects:
    """``timeout_s``: after which one request to a server counts as failed; it is tried a few times. A folder is made if
    it is not there; a server is not asked before it is needed. Raises ConfigError for a URL that names no store,
    ObjectsError for a folder that cannot be used."""
    address = parse_objects(url, field)
    if address.kind == "memory":
        return MemoryObjects()
    if address.kind == "file":
        return LocalObjects(address.folder)
    return _open_s3(address, field, timeout_s)


def _open_s3(address: ObjectsAddress, field: str, timeout_s: float) -> Objects:
    """A server of one's own has no roles to give. Without this check the first request would look for them for a long
    while, outside."""
    if address.endpoint and not address.anonymous and not any(os.environ.get(name) for name in ROLES):
        raise ConfigError(field, str(address), f"no credentials: {CREDENTIALS}; or write anonymous=true")
    from quoracy.objects.s3 import S3Objects

    return S3Objects(address, timeout_s=timeout_s)
