"""Code that the settings of a run name, and the modules that a server runs it from: those that its own configuration
lists. Whoever may create a run must not thereby choose what the server imports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quoracy.core.errors import ConfigError

ALLOWED = "workshop.modules"
"""The setting of the server."""


def code_named(config: Mapping[str, Any]) -> dict[str, str]:
    """By setting, ``module:name``. Of settings as they were given: what is no such thing is not looked at here."""
    aggregation = config.get("aggregation")
    rule = aggregation if isinstance(aggregation, Mapping) else {}
    found = {"evaluation": config.get("evaluation"), "aggregation.of": rule.get("of")}
    return {setting: named for setting, named in found.items() if isinstance(named, str) and named}


def modules_of(config: Mapping[str, Any]) -> list[str]:
    """The modules that have to be listed for such a run."""
    return sorted({named.partition(":")[0] for named in code_named(config).values()})


def code_refused(config: Mapping[str, Any], allowed: Iterable[str]) -> list[ConfigError]:
    """What the server would not run, each with what to add where."""
    listed = list(allowed)
    return [
        ConfigError(setting, named, not_listed(module, listed))
        for setting, named in code_named(config).items()
        if (module := named.partition(":")[0]) not in listed
    ]


def not_listed(module: str, allowed: Iterable[str]) -> str:
    """The way out, for whoever runs the server."""
    listed = [*allowed, module]
    written = ", ".join(f'"{name}"' for name in dict.fromkeys(listed))
    return (
        f"the server runs code only from modules that its own configuration lists: add {module} there, as "
        f"{ALLOWED} = [{written}]"
    )
