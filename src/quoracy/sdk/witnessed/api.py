"""``join``: the door of the SDK for witnessed runs. All that it can be told is documented here."""

from __future__ import annotations

import os
from pathlib import Path

from quoracy.core.errors import ConfigError
from quoracy.core.witnessed.events import MemberJoined
from quoracy.learn.witnessed.trainer import Factory, Source
from quoracy.ports.objects import key_part
from quoracy.sdk.client.address import parse_url
from quoracy.sdk.client.names import lasting_name
from quoracy.sdk.client.only_run import only_run
from quoracy.sdk.client.settings import URL, Timeouts, check_member, settings
from quoracy.sdk.federated.weights import Way
from quoracy.sdk.witnessed.events import OnMemberNews
from quoracy.sdk.witnessed.exchange import open_exchange
from quoracy.sdk.witnessed.member import Member, MemberSummary
from quoracy.sdk.witnessed.tools import Builder
from quoracy.trust.keys import MemberKey


def join(
    url: str | None = None,
    trainer: str | Factory | None = None,
    run: str | None = None,
    *,
    member: str | None = None,
    identity: str | os.PathLike[str] | None = None,
    token: str | None = None,
    ca: str | os.PathLike[str] | None = None,
    labels: dict[str, str] | None = None,
    listen: str = "127.0.0.1:0",
    address: str | None = None,
    device: str = "cpu",
    source: Source | None = None,
    store: str = "",
    weights: Way = "auto",
    cache: str | os.PathLike[str] | None = None,
    on_news: OnMemberNews | None = None,
    handle_sigterm: bool | None = None,
    give_up_s: float | None = None,
    drain_s: float = 20.0,
    wait: bool = False,
) -> MemberSummary:
    """Take part in a witnessed run until it is over. Returns how it went.

    ``url``: the coordinator, as ``tcp://HOST:PORT`` or ``tcps://``; or QUORACY_URL. ``run``: or QUORACY_RUN; without
    either, the only witnessed run that the coordinator has.
    ``trainer``: ``"module:Trainer"``, or a class or function that is called with a ``RunTask`` and gives a ``Trainer``;
    "digits" and "fashion" come along.
    ``member``: the id; or QUORACY_MEMBER. Else one made from machine, folder and command line: the same when this is
    started again.
    ``identity``: a file with this member's Ed25519 key, made if it is not there; or QUORACY_KEY. Results are signed
    with it, and the others know this member by it. Default: one for each member and run, in the user's state folder.
    ``token``, ``ca``: as for ``connect``. ``labels``: shown to people.
    ``listen``: where others may fetch from, as HOST:PORT; port 0 takes a free one. Empty: nobody can reach this member,
    and what it makes goes through the coordinator. ``address``: what to tell them instead, behind a port that is
    forwarded.
    ``device``: handed on to the trainer. ``source``: samples, instead of those that the run's settings name.
    ``store``, ``weights``: for checkpoints, as for ``participate``. ``cache``: a folder for what is fetched.
    ``on_news``: called with whatever happens, as ``MemberNews``, in the thread that happens to be here.
    ``handle_sigterm``: leave properly when SIGTERM comes; None: if this is the main thread and the program has no
    handler of its own. ``drain_s``: so long a round under way may go on before.
    ``give_up_s``: how long to look for a coordinator and to wait to be let in. None: for ever.
    ``wait``: if there is no such run, wait until somebody creates it. Without it that raises, with the names there are.

    Raises ``Ejected``, ``AccessDenied``, ``Unreachable`` after ``give_up_s``, and what the trainer raises.
    """
    given = locals()
    return prepare(**given).take_part()


def prepare(
    url: str | None,
    trainer: str | Factory | None,
    run: str | None,
    *,
    member: str | None = None,
    identity: str | os.PathLike[str] | None = None,
    token: str | None = None,
    ca: str | os.PathLike[str] | None = None,
    labels: dict[str, str] | None = None,
    listen: str = "127.0.0.1:0",
    address: str | None = None,
    device: str = "cpu",
    source: Source | None = None,
    store: str = "",
    weights: Way = "auto",
    cache: str | os.PathLike[str] | None = None,
    on_news: OnMemberNews | None = None,
    handle_sigterm: bool | None = None,
    give_up_s: float | None = None,
    drain_s: float = 20.0,
    wait: bool = False,
) -> Member:
    """One that has begun to look for its coordinator."""
    if trainer is None:
        raise ConfigError("trainer", None, "name it: module:Trainer; with Quoracy come: digits, fashion")
    asked = url or os.environ.get("QUORACY_URL") or URL
    named = run or os.environ.get("QUORACY_RUN") or only_run("witnessed", asked, token, ca, give_up_s, wait)
    called = check_member(member or os.environ.get("QUORACY_MEMBER") or lasting_name(named, "member"))
    key_path = Path(identity or os.environ.get("QUORACY_KEY") or _default_key(named, called)).absolute()
    key = MemberKey.open(_made(key_path))
    addresses, _ = parse_url(asked)
    exchange = open_exchange(called, key, listen, address, toward=addresses[0].host)
    try:
        told = settings(
            url, named, called, token=token, ca=ca, key=key_path,
            about={"addresses": exchange.addresses, "labels": labels or {}},
            timeouts=Timeouts(give_up_s=give_up_s, drain_s=drain_s), joins=MemberJoined,
            wait=wait,
        )  # fmt: skip
        builder = Builder(told, asked, key, exchange, trainer, device, source, store, weights, cache)
        made = Member(told, builder.tools, on_news=on_news, handle_sigterm=handle_sigterm)
    except BaseException:
        exchange.close()
        raise
    exchange.on_announce(made.heard)
    return made


def _default_key(run: str, member: str) -> Path:
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return home / "quoracy" / "members" / key_part(run) / f"{member}.key"


def _made(path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigError("identity", str(path), f"its folder cannot be made ({error.strerror})") from None
    return path
