"""Whether an update may count: looked at whole, slice by slice, before anybody averages it with anything.

What does not pass is told why in words that its sender can act on. The norm is that of the difference to the model the
round began with, over the floating tensors; a counter of steps would drown it.
"""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np

from quoracy.learn.header import Spec, difference
from quoracy.learn.slices import ALONE, pieces
from quoracy.learn.tensors import BadTensors, TensorFile, digest_of


class Verdict(msgspec.Struct, frozen=True):
    """``why`` is empty if it is ok. ``norm``: how far the update moves the model; without a reference the norm of the
    weights themselves."""

    ok: bool
    why: str = ""
    norm: float = 0.0


class _Refused(Exception):
    pass


def examine(
    path: Path, reference: Path | None, *, norm_bound: float = 0.0, max_bytes: int = 0, digest: str = ""
) -> Verdict:
    """Look at the update in ``path``. ``norm_bound`` and ``max_bytes`` of 0 are no bound, ``digest`` of "" is not
    compared. The reference is trusted: whatever is wrong with it is raised."""
    if reference is None:
        return _examine(path, None, 0.0, max_bytes, digest)
    with TensorFile(reference) as model:
        return _examine(path, model, norm_bound, max_bytes, digest)


def _examine(path: Path, model: TensorFile | None, norm_bound: float, max_bytes: int, digest: str) -> Verdict:
    try:
        size_bytes = path.stat().st_size
        if max_bytes and size_bytes > max_bytes:
            raise _Refused(f"the update has {size_bytes} bytes, at most {max_bytes} are taken")
        if digest and (found := digest_of(path)) != digest:
            raise _Refused(f"the update's digest is {found}, announced was {digest}")
        with TensorFile(path) as update:
            return _looked_through(update, model, norm_bound)
    except FileNotFoundError:
        return Verdict(False, "there is no such update; upload it before announcing it")
    except (_Refused, BadTensors) as error:
        return Verdict(False, str(error))


def _looked_through(update: TensorFile, model: TensorFile | None, norm_bound: float) -> Verdict:
    if not any(spec.size for spec in update.specs):
        raise _Refused("there are no numbers in it")
    if model is not None and (different := difference(update.layout, model.layout)):
        raise _Refused(different)
    square = 0.0
    for spec in update.specs:
        if spec.dtype.floating:
            square += _square(update, model, spec)
    if not math.isfinite(square):
        raise _Refused("the update is so far from the model that the distance is no number")
    norm = math.sqrt(square)
    if norm_bound and norm > norm_bound:
        raise _Refused(f"the update moves the model by {norm:.6g}, at most {norm_bound:.6g} is allowed")
    return Verdict(True, "", norm)


def _square(update: TensorFile, model: TensorFile | None, spec: Spec) -> float:
    """Squared distance of one tensor to the model's. Raises if one of its numbers is none."""
    square = 0.0
    for start, stop in pieces(spec.size, ALONE):
        worked = np.empty(stop - start, spec.dtype.works_as)
        update.read_into(spec, start, worked)
        moved = worked.astype(np.float64)
        if model is not None:
            before = np.empty_like(worked)
            model.read_into(model.by_name[spec.name], start, before)
            moved -= before
        with np.errstate(all="ignore"):
            step = float(moved @ moved)
        if not math.isfinite(step) and not np.isfinite(worked).all():  # a sum of finite squares may be too large too
            raise _Refused(_not_finite(spec, start, worked))
        square += step
    return square


def _not_finite(spec: Spec, start: int, worked: np.ndarray[tuple[int], np.dtype[np.floating]]) -> str:
    first = int(np.argmin(np.isfinite(worked)))
    at = np.unravel_index((start + first) // spec.dtype.parts, spec.shape)
    place = ", ".join(str(int(index)) for index in at)
    return f"tensor {spec.name!r} is not finite: {worked[first]} at [{place}]"
