"""A trainer by its name: ``module:Trainer``, from the current folder or what is installed, or one that comes along."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from quoracy.core.errors import ConfigError
from quoracy.learn.witnessed.trainer import Factory, RunTask, Trainer, check_trainer
from quoracy.version import INSTALL_TORCH

ROOM: Final = "quoracy.learn.witnessed"
TORCH: Final = f"this needs PyTorch: {INSTALL_TORCH}"
SHORT: Final = {
    "digits": f"{ROOM}.mlp_trainer:digits",
    "fashion": f"{ROOM}.mlp_trainer:fashion",
    "nothing": f"{ROOM}.nothing:Nothing",
}


def find_trainer(name: str) -> Factory:
    """Raises ConfigError. Whatever the module itself raises when it is imported comes through."""
    fix = f"write MODULE:TRAINER, such as mine:Trainer; with Quoracy come: {', '.join(SHORT)}"
    module_name, colon, attribute = SHORT.get(name, name).partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigError("trainer", name, fix)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except ImportError as error:
        extra = f"; {TORCH}" if error.name == "torch" else ""
        where = f"cannot be imported from {here} or what is installed ({error})"
        raise ConfigError("trainer", name, f"{where}{extra}") from None
    make = getattr(module, attribute, None)
    if not callable(make):
        raise ConfigError("trainer", name, f"{module_name} has no class or function {attribute!r}")
    found: Factory = make
    return found


def open_trainer(name: str, task: RunTask) -> Trainer:
    """Made and looked at: it has what a trainer needs. Raises ConfigError."""
    return check_trainer(find_trainer(name)(task), name)
