"""Makes what a member works with, once the coordinator has told the run's settings."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import cache as once
from pathlib import Path
from typing import Any, Final

import msgspec

from quoracy.core.backoff import Backoff, Waits
from quoracy.core.errors import ConfigError, ObjectsUnreachable, Refused
from quoracy.core.witnessed.config import Config
from quoracy.learn.witnessed.encodings import encoding_of
from quoracy.learn.witnessed.opening import open_trainer
from quoracy.learn.witnessed.source import open_source
from quoracy.learn.witnessed.trainer import Factory, RunTask, Source, Trainer, check_trainer
from quoracy.ports.objects import key_part
from quoracy.sdk.client.ask import Asker
from quoracy.sdk.client.errors import Unreachable
from quoracy.sdk.client.http import HttpLine
from quoracy.sdk.client.settings import Settings
from quoracy.sdk.federated.weights import Depot, Way
from quoracy.sdk.federated.weights_cache import Cache, default_folder
from quoracy.sdk.witnessed.blobs import Blobs
from quoracy.sdk.witnessed.exchange import Exchange
from quoracy.sdk.witnessed.folder import Folder
from quoracy.sdk.witnessed.member import Member, Tools
from quoracy.sdk.witnessed.models import Models
from quoracy.sdk.witnessed.newcomer import Newcomer
from quoracy.sdk.witnessed.samples import HttpSamples
from quoracy.sdk.witnessed.work import Workroom
from quoracy.trust.keys import MemberKey

WAITS: Final = Waits(first_us=100_000, longest_us=1_000_000)
LOOK_S: Final = 0.1


class Builder:
    def __init__(
        self, told: Settings, url: str, key: MemberKey, exchange: Exchange, trainer: str | Factory, device: str,
        source: Source | None, store: str, weights: Way, cache: str | os.PathLike[str] | None,
    ) -> None:  # fmt: skip
        self._told = told
        self._url = url
        self._key = key
        self._exchange = exchange
        self._trainer = trainer
        self._device = device
        self._source = source
        self._store = store
        self._weights = weights
        self._cache = Path(cache) if cache is not None else default_folder(key_part(told.run))

    def tools(self, member: Member) -> Tools:
        told, exchange = self._told, self._exchange
        config = self._config(member)
        kept, folder = Cache(self._cache), Folder(self._cache)
        depot = Depot(
            told.run, lambda: self._ask("weights", member), kept, way=self._weights, store=self._store,
            token=told.token, ca=told.ca, on_progress=member.moved,
        )  # fmt: skip

        def tidy() -> None:
            depot.forget()
            folder.remove()

        try:
            line = self._line(member)
            if line is not None:
                exchange.relay_by(line())
            encoding = encoding_of(config.hyper)
            blobs = Blobs(told.run, folder.path / "results", config.batch_size, encoding)
            tensors = self._cache / "tensors" / told.member
            newcomer = Newcomer(exchange, tensors, member.check, member.moved)
            work = Workroom(
                told.member, self._made(self._task(config, member, line)), encoding, blobs, Models(exchange), newcomer,
                depot, kept.temporary, member.check,
            )  # fmt: skip
        except BaseException:
            tidy()
            raise
        return Tools(exchange, blobs, work, self._key, tidy)

    def _task(self, config: Config, member: Member, line: Callable[[], HttpLine] | None) -> RunTask:
        told, source = self._told, self._source
        if source is None:
            fetch = held_out = None
            if line is not None:
                samples = HttpSamples(line, member.check)
                fetch, held_out = samples.fetch, samples.held_out
            elif config.data.kind == "door":
                raise ConfigError(
                    "http", "", "this run's samples are behind the coordinator's HTTP door: let it have one"
                )
            source = open_source(
                config.data.kind, config.data.location, seed=config.seed, batch_size=config.batch_size, fetch=fetch,
                held_out=held_out,
            )  # fmt: skip
        return RunTask(
            told.run, told.member, config.seed, config.batch_size, dict(config.hyper), source, self._device,
            member.moved,
        )  # fmt: skip

    def _made(self, task: RunTask) -> Trainer:
        if isinstance(self._trainer, str):
            return open_trainer(self._trainer, task)
        return check_trainer(self._trainer(task), getattr(self._trainer, "__name__", "trainer"))

    # -- the coordinator --------------------------------------------------------------------------------------------

    def _line(self, member: Member) -> Callable[[], HttpLine] | None:
        """To the coordinator's HTTP door, if it has one, with the token of this member's life where there is one."""
        told = self._told
        http = str(self._ask("weights", member).get("http", ""))
        if not http:
            return None

        def find() -> str:
            try:
                return str(self._ask_once("weights").get("http") or http)
            except (Unreachable, Refused) as error:
                raise ObjectsUnreachable(f"where the coordinator's HTTP door is: {error}") from None

        @once
        def line() -> HttpLine:
            return HttpLine(
                http, told.run, lambda: member.life()[1] or told.token, told.ca,
                who=lambda: {"member": told.member, "incarnation": member.life()[0]}, find=find,
            )  # fmt: skip

        return line

    def _config(self, member: Member) -> Config:
        found = self._ask("settings", member)
        if found["kind"] != "witnessed":
            raise ConfigError("run", self._told.run, f"is a {found['kind']} run; name a witnessed one")
        return msgspec.convert(found["config"], Config)

    def _ask(self, question: str, member: Member) -> dict[str, Any]:
        """As often as it takes: a run may be created after its members were started."""
        began_s, backoff = time.monotonic(), Backoff(WAITS)
        give_up_s = self._told.timeouts.give_up_s
        while True:
            try:
                return self._ask_once(question)
            except (Unreachable, Refused) as error:
                late = give_up_s is not None and time.monotonic() - began_s >= give_up_s
                if late or (isinstance(error, Refused) and not self._told.passes(error.refusal)):
                    raise
                member.trouble(f"the coordinator does not tell the run's {question}: {error}")
                advised_s = error.refusal.retry_after_s if isinstance(error, Refused) else None
            again_s = time.monotonic() + backoff.failed_s(time.monotonic(), random.SystemRandom().random(), advised_s)
            while time.monotonic() < again_s:
                member.check()
                time.sleep(LOOK_S)

    def _ask_once(self, question: str) -> dict[str, Any]:
        with Asker(self._url, token=self._told.token, ca=self._told.ca) as asker:
            found: dict[str, Any] = asker.ask(question, self._told.run)
            return found
