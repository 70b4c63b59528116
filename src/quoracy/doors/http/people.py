"""Routes for people and tools: what is there, what it waits for, and orders."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import msgspec

from quoracy.core.codec import seconds
from quoracy.core.errors import Refused
from quoracy.doors.http import cursors, shapes, shapes_rounds, shapes_witnessed
from quoracy.doors.http.answers import Answer, say
from quoracy.doors.http.house import House
from quoracy.doors.http.problems import trouble
from quoracy.doors.http.reading import Asked


async def status(house: House, asked: Asked) -> Answer:
    return say(msgspec.convert(await house.ask(asked, "status"), shapes.Status))


async def runs(house: House, asked: Asked) -> Answer:
    page: shapes.RunsPage = asked.query
    after = cursors.name_of(page.cursor)
    all_of_them = [_timed(run) for run in await house.ask(asked, "runs") if run["run"].encode() > after]
    shown = all_of_them[: page.limit]
    more = cursors.at_name(shown[-1]["run"]) if len(all_of_them) > len(shown) else None
    return say(shapes.Runs(msgspec.convert(shown, list[shapes.RunBrief]), more))


async def run(house: House, asked: Asked) -> Answer:
    return say(_shown(await house.ask(asked, "show", asked.params["run"])))


async def explain(house: House, asked: Asked) -> Answer:
    return say(_shown(await house.ask(asked, "show", asked.params["run"])).explanation)


async def workers(house: House, asked: Asked) -> Answer:
    page: shapes.WorkersPage = asked.query
    if page.run:
        house.service.served(page.run, asked.identity)
    found = await house.ask(asked, "workers", page.run)
    found.sort(key=lambda worker: (worker["run"], worker["id"]))
    after = cursors.pair_of(page.cursor)
    found = [worker for worker in found if (worker["run"].encode(), worker["id"].encode()) > after]
    shown = found[: page.limit]
    more = cursors.at_pair(shown[-1]["run"], shown[-1]["id"]) if len(found) > len(shown) else None
    return say(shapes.Workers(msgspec.convert(shown, list[shapes.Worker]), more))


async def journal(house: House, asked: Asked) -> Answer:
    page: shapes.NumberedPage = asked.query
    after = cursors.number_of(page.cursor)
    name = asked.params["run"]
    if after is None:
        newest = await house.ask(asked, "journal", name, after=2**53, limit=1)
        after = newest["first"] - 1
    try:
        told = await house.ask(asked, "journal", name, after=after, limit=page.limit)
    except Refused as error:
        if error.code != "entries_gone":
            raise
        raise trouble(
            "entries_gone", error.refusal.why, "leave out the cursor: the first that is there comes"
        ) from None
    more = None if told["next"] is None else str(told["next"])
    entries = msgspec.convert(told["entries"], list[shapes.Entry])
    return say(shapes.Entries(entries, more, told["first"], told["last"]))


async def history(house: House, asked: Asked) -> Answer:
    page: shapes.NumberedPage = asked.query
    after = cursors.number_of(page.cursor)
    told = await house.ask(
        asked, "history", asked.params["run"], after=-1 if after is None else after, limit=page.limit
    )
    more = None if told["next"] is None else str(told["next"])
    return say(shapes.History(msgspec.convert(told["rounds"], list[shapes.Round]), more, told["of"]))


async def reports(house: House, asked: Asked) -> Answer:
    page: shapes.NumberedPage = asked.query
    after, member = cursors.number_of(page.cursor), asked.params["participant"]
    told = await house.ask(asked, "reports", asked.params["run"], member=member, after=after or 0, limit=page.limit)
    more = None if told["next"] is None else str(told["next"])
    return say(msgspec.convert({**told, "next": more}, shapes_rounds.TrainingReports))


async def epochs(house: House, asked: Asked) -> Answer:
    page: shapes.NumberedPage = asked.query
    after = cursors.number_of(page.cursor)
    told = await house.ask(asked, "epochs", asked.params["run"], after=-1 if after is None else after, limit=page.limit)
    more = None if told["next"] is None else str(told["next"])
    return say(shapes_witnessed.Epochs(msgspec.convert(told["epochs"], list[shapes_witnessed.Epoch]), more, told["of"]))


async def series(house: House, asked: Asked) -> Answer:
    name, wish = asked.params["run"], asked.query
    if not wish.name:
        told = await house.ask(asked, "series-names", name)
        return say(msgspec.convert({**told, "buckets": [], "now_s": time.time()}, shapes.SeriesShown))
    arguments = {key: value for key, value in msgspec.structs.asdict(wish).items() if value is not None}
    if wish.since_s is not None:
        arguments["until_s"] = max(time.time(), wish.since_s)  # nothing is there yet, and that is the answer
    told = await house.ask(asked, "series", name, **arguments)
    buckets = [{**bucket, "mean": bucket["total"] / bucket["count"]} for bucket in told["buckets"]]
    named = {"name": told["name"], "subject": told["subject"]}
    return say(msgspec.convert({"series": [named], "buckets": buckets, "now_s": told["now_s"]}, shapes.SeriesShown))


# -- orders --------------------------------------------------------------------------------------------------------


async def create(house: House, asked: Asked) -> Answer:
    wish: shapes.Creation = asked.body
    arguments = {"kind": wish.kind, "config": msgspec.to_builtins(wish.config), "label": wish.label}
    shown = _shown(await _order(house, asked, "create", wish.run, arguments))
    place = f"/api/runs/{quote(wish.run, safe='')}"
    return say(shown, 201, ((b"location", place.encode()),))


async def stop(house: House, asked: Asked) -> Answer:
    return await _done(house, asked, "stop", {"reason": asked.body.reason})


async def pause(house: House, asked: Asked) -> Answer:
    return await _done(house, asked, "pause", {"reason": asked.body.reason})


async def resume(house: House, asked: Asked) -> Answer:
    return await _done(house, asked, "resume", {})


async def readmit(house: House, asked: Asked) -> Answer:
    return await _done(house, asked, "readmit", {"member": asked.params["member"]})


async def roll_back(house: House, asked: Asked) -> Answer:
    return await _done(house, asked, "roll-back", {"reason": asked.body.reason})


async def drop_barrier(house: House, asked: Asked) -> Answer:
    return await _done(house, asked, "drop-barrier", {"barrier": asked.params["barrier"], "reason": asked.body.reason})


async def order(house: House, asked: Asked) -> Answer:
    return await _done(house, asked, "order", msgspec.to_builtins(asked.body))


async def _done(house: House, asked: Asked, what: str, arguments: dict[str, Any]) -> Answer:
    told = await _order(house, asked, what, asked.params["run"], arguments)
    return say(msgspec.convert(told, shapes.Done))


async def _order(house: House, asked: Asked, what: str, run: str, arguments: dict[str, Any]) -> Any:
    """The same key with another wish is a contradiction."""
    if key := asked.request_key():
        arguments["request"] = key
    return await house.ask(asked, what, run, **arguments)


def _shown(told: dict[str, Any]) -> shapes.RunShown:
    workers = [{"run": told["run"], **worker} for worker in told.get("workers", [])]
    return msgspec.convert({**_timed(told), "workers": workers}, shapes.RunShown)


def _timed(told: dict[str, Any]) -> dict[str, Any]:
    """Times as seconds."""
    explanation = told["explanation"]
    waits = [
        {**wait, "waited_s": seconds(wait["waited_us"]), "left_s": _seconds(wait["left_us"])}
        for wait in explanation["waits"]
    ]
    return {**told, "at_s": seconds(told.get("at_us", 0)), "explanation": {**explanation, "waits": waits}}


def _seconds(left_us: int | None) -> float | None:
    return None if left_us is None else seconds(left_us)
