"""Structured logs: one JSON object or one readable line per happening; a reason only when it changes."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

import msgspec

LEVELS = ("debug", "info", "warn", "error")


class Log:
    def __init__(self, level: str = "info", form: str = "text", stream: TextIO | None = None) -> None:
        self._least = LEVELS.index(level)
        self._form = form
        self._stream = stream or sys.stderr
        self._said: dict[tuple[str, str], str] = {}

    def tells(self, level: str) -> bool:
        return LEVELS.index(level) >= self._least

    def debug(self, what: str, **facts: Any) -> None:
        self._write(0, what, facts)

    def info(self, what: str, **facts: Any) -> None:
        self._write(1, what, facts)

    def warn(self, what: str, **facts: Any) -> None:
        self._write(2, what, facts)

    def error(self, what: str, **facts: Any) -> None:
        self._write(3, what, facts)

    def once(self, about: str, run: str, why: str, **facts: Any) -> None:
        """A reason, if it is another one than last time."""
        if self._said.get((about, run)) != why:
            self._said[about, run] = why
            self.info(about, run=run, why=why, **facts)

    def _write(self, level: int, what: str, facts: dict[str, Any]) -> None:
        if level < self._least:
            return
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        if self._form == "json":
            line = msgspec.json.encode({"at": stamp, "level": LEVELS[level], "what": what} | facts).decode()
        else:
            told = " ".join(f"{name}={_plain(value)}" for name, value in facts.items())
            line = f"{stamp} {LEVELS[level]:<5} {what} {told}".rstrip()
        self._stream.write(line + "\n")
        self._stream.flush()


def _plain(value: Any) -> str:
    text = str(value)
    return f'"{text}"' if " " in text or not text else text
