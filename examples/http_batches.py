"""The samples of a witnessed run, from the data door of its coordinator: what a member without samples of its own does.

A member gets what is assigned to it in the round that is open; see examples/grpc_member.py for how it knows.
"""

import urllib.request
from urllib.parse import quote, urlencode

import numpy as np
from safetensors.numpy import load


def fetch(
    url: str, run: str, member: str, incarnation: int, first: int, last: int, token: str = ""
) -> dict[str, np.ndarray]:
    """Arrays by name, with a row for each sample of these batches, both included."""
    place = f"{url}/api/runs/{quote(run, safe='')}/batches/{first}-{last}"
    asked = urlencode({"member": member, "incarnation": incarnation})
    request = urllib.request.Request(f"{place}?{asked}")  # noqa: S310
    if token:
        request.add_header("authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        samples: dict[str, np.ndarray] = load(answer.read())
    return samples
