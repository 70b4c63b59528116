"""What a server's answers mean, and what its silence does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from quoracy.core.errors import (
    ObjectCorrupt,
    ObjectMissing,
    ObjectsBroken,
    ObjectsDenied,
    ObjectsFull,
    ObjectsUnreachable,
)

_FULL: Final = re.compile(
    r"status code: 507|<Code>\w*(StorageFull|QuotaExceeded|InsufficientStorage)\w*</Code>|no space left",
    re.IGNORECASE,
)
_SAID_NO: Final = re.compile(r"status code: 4\d\d")
_NO_KEYS: Final = re.compile(r"http://169\.254\.\d+\.\d+")
"""Where a machine in a cloud asks for its role: whoever is sent there has no keys of its own."""
_KEYS: Final = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and see what they may do"


@contextmanager
def answered(place: str, key: str) -> Iterator[None]:
    """The client's exceptions as ours, but for *it exists*, which callers ask for. They quote what the server said, and
    never what was signed or with what."""
    try:
        yield
    except AlreadyExistsError:
        raise
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise ObjectsBroken(f"{place}: there is no such bucket; create it, or correct its name") from None
        raise ObjectMissing(key) from None
    except PreconditionError:
        raise ObjectCorrupt(key, "it was replaced while it was read; read it again") from None
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise ObjectsDenied(f"{place}: {_said(error)}; {_KEYS}") from None
    except BaseError as error:
        said = _said(error)
        if _FULL.search(said):
            raise ObjectsFull(f"{place}: {said}; make room, and try it again") from None
        if "NoSuchBucket" in said:
            raise ObjectsBroken(f"{place}: there is no such bucket; create it, or correct its name") from None
        if _NO_KEYS.search(said):
            raise ObjectsDenied(f"{place}: {said}; {_KEYS}") from None
        if _SAID_NO.search(said):
            raise ObjectsBroken(f"{place}: {said}") from None
        raise ObjectsUnreachable(f"{place}: {said}; is it running, and is the endpoint right?") from None


def _said(error: BaseException) -> str:
    """Without the client's inner life."""
    return " ".join(str(error).partition("Debug source")[0].split())[:500]
