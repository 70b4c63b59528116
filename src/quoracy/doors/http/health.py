"""Routes about the server itself: whether it lives, whether it is ready, its figures, who is logged in, what a code
means."""

from __future__ import annotations

from quoracy.core.errors import CATALOG, Refusal, Refused
from quoracy.core.host import Phase
from quoracy.doors.auth import Action
from quoracy.doors.http import shapes
from quoracy.doors.http.answers import Answer, say
from quoracy.doors.http.house import House
from quoracy.doors.http.login import COOKIE_S
from quoracy.doors.http.problems import OWN, RETRY_S, Trouble, trouble
from quoracy.doors.http.reading import Asked
from quoracy.doors.tokens import ANY


async def livez(_house: House, _asked: Asked) -> Answer:
    """The loop turns, or nobody would answer."""
    return say(shapes.Alive())


async def readyz(house: House, _asked: Asked) -> Answer:
    reasons = _not_ready(house)
    if not reasons:
        return say(shapes.Ready(True, []))
    return say(shapes.Ready(False, reasons), 503, ((b"retry-after", b"%d" % RETRY_S),))


def _not_ready(house: House) -> list[str]:
    server = house.service.server
    reasons = []
    if house.service.draining:
        reasons.append("draining: this server is about to stop")
    if not server.serving:
        reasons.append("following: another server holds the store, or this one is still starting")
    if server.broken.done():
        reasons.append(f"broken: {server.broken.result().why}")
    taking = sum(1 for run in server.runs.values() if run.host.phase is Phase.TAKING)
    if server.serving and taking:
        reasons.append(f"starting: {taking} of {len(server.runs)} runs are being taken over")
    return reasons


async def metrics(house: House, asked: Asked) -> Answer:
    refusal = asked.identity.check(Action.LOOK)
    if refusal is None and asked.identity.run != ANY:
        refusal = Refusal("forbidden", f"the token is for {asked.identity.run}", "use a token for all runs")
    if refusal is not None:
        raise Trouble(refusal)
    if house.metrics is None:
        raise Refused(Refusal("not_serving", "this server counts nothing", "ask one that does"))
    body, media = house.metrics.render(asked.header(b"accept"))
    return Answer(body, media=media.encode(), tagged=False)


async def log_in(house: House, asked: Asked) -> Answer:
    """The token goes into a cookie that scripts cannot read."""
    token: str = asked.body.token
    identity = house.login.check(token, asked.line.stranger)
    asked.line.count_by(identity)
    shown = shapes.LoggedIn(identity.role.value, identity.run, identity.name)
    return say(shown, headers=(house.login.set_cookie(token, COOKIE_S),))


async def log_out(house: House, _asked: Asked) -> Answer:
    return Answer(b"", 204, headers=(house.login.set_cookie("", 0),))


async def problem(_house: House, asked: Asked) -> Answer:
    code = asked.params["code"]
    if code in OWN:
        return say(shapes.Meaning(code, OWN[code].status, OWN[code].meaning, OWN[code].retry))
    if code in CATALOG:
        return say(shapes.Meaning(code, CATALOG[code].http, CATALOG[code].meaning, CATALOG[code].retry))
    raise trouble("no_such_page", f"no problem has the code {code[:64]!r}", "see docs/reference/errors.md")
