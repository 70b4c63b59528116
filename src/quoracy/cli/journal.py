"""``quoracy journal``: look at a journal, check it, save it, mend it. None of them needs a server.

PATH is a data directory (the one with ``journal.db`` in it), an exported file, or an archived segment. ``show``,
``verify`` and ``export`` change nothing and may be used while a server is running.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from quoracy.cli.journal_repair import DirectoryRepair, FileRepair
from quoracy.cli.journal_show import Reader, as_value, brief, kind_of, line
from quoracy.cli.journal_source import PAGE, Source, is_segment, open_source, pick, read_until_damage
from quoracy.cli.journal_verify import Damaged, Verdict
from quoracy.cli.journal_verify import verify as verify_source
from quoracy.core.errors import CATALOG, ConfigError, JournalCorrupt, QuoracyError
from quoracy.stores.durable import write_durably
from quoracy.stores.segment import encode_end, encode_header, encode_record

app = typer.Typer(
    help="Look at a journal, check it, save it, mend it. Needs no server.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

PathArgument = Annotated[Path, typer.Argument(help="A data directory, an exported file, or a segment.")]
RunArgument = Annotated[str | None, typer.Argument(help="The run; may be left out if there is only one.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]


class Saying:
    """What a verb says: lines for people, and facts for programs if they asked for them."""

    def __init__(self, command: str, json: bool) -> None:
        self.console = Console(stderr=json, highlight=False, soft_wrap=True)
        self.json = json
        self.ok = True
        self.exit = 0
        self.facts: dict[str, Any] = {"command": command, "ok": True, "seconds": 0.0}

    def damage(self, damage: Damaged) -> None:
        self.fail(damage.code)
        self.facts["damage"] = msgspec.structs.asdict(damage)
        self.console.print("[red]damaged:[/] ", end="")
        self.console.print(damage.sentence(), markup=False)

    def fail(self, code: str) -> None:
        self.ok = False
        self.exit = self.exit or CATALOG[code].exit

    def line(self, text: str) -> None:
        self.console.print(text, markup=False)


@contextmanager
def _saying(command: str, json: bool) -> Iterator[Saying]:
    """One object at the end, and the exit code of the catalog, also if something is raised."""
    saying = Saying(command, json)
    began = time.perf_counter()
    try:
        yield saying
    except QuoracyError as error:
        if not json:
            raise
        saying.fail(error.code)
        saying.facts |= {"error": {"code": error.code, "what": str(error)}}
    saying.facts |= {"ok": saying.ok, "seconds": round(time.perf_counter() - began, 3)}
    if json:
        typer.echo(msgspec.json.encode(saying.facts).decode())
    if saying.exit:
        raise typer.Exit(saying.exit)


@app.command()
def show(
    path: PathArgument,
    run: RunArgument = None,
    first: Annotated[int, typer.Option("--from", min=1, help="The first entry to show.")] = 1,
    limit: Annotated[int, typer.Option(min=1, help="At most this many entries.")] = 100,
    events: Annotated[bool, typer.Option("--events", help="Every event on a line of its own.")] = False,
    json: JsonOption = False,
) -> None:
    """Print entries, one line each: number, run time, host and term, events.

    A damaged journal is shown up to the damage, which is then named.

    Examples:

        quoracy journal show quoracy-data bert

        quoracy journal show quoracy-data bert --from 1200 --limit 20 --events

        quoracy journal show bert.qseg --json
    """
    with _saying("journal show", json) as saying, closing(open_source(path)) as source:
        name = pick(source, run)
        kind = kind_of(source, name)
        begins, last = source.first(name), source.last(name)
        start = max(first, begins)
        payloads, damage = read_until_damage(source, name, start, limit)
        shown = []
        for n, payload in enumerate(payloads, start):
            try:
                entry, recorded = Reader(name, kind).read(payload, n)
            except JournalCorrupt as error:
                damage = error
                break
            shown.append(as_value(entry, recorded))
            saying.line(line(entry, [] if events else recorded, len(str(last))).rstrip())
            for event in recorded if events else ():
                saying.line(f"{'':>{len(str(last))}}  {brief(event)}")
        saying.facts |= {"path": str(path), "run": name, "kind": kind and " ".join(map(str, kind))}
        saying.facts |= {"first": begins, "last": last, "entries": shown, "damage": None}
        if first < begins:
            saying.line(f"entries 1 to {begins - 1} were deleted by retention")
        if damage is not None:
            saying.damage(Damaged.of(damage, name))
        elif start + len(shown) <= last:
            saying.line(f"... {last - start - len(shown) + 1} more, up to entry {last}")


@app.command()
def verify(path: PathArgument, run: RunArgument = None, json: JsonOption = False) -> None:
    """Read everything and check it: seals, numbers, the chain of digests, rules, and the state by folding.

    Names the first thing that is wrong in each run: entry, offset, and what it is.

    Examples:

        quoracy journal verify quoracy-data

        quoracy journal verify bert.qseg --json
    """
    with _saying("journal verify", json) as saying:
        began = time.perf_counter()
        verdict = _verified(path, run)
        saying.facts |= {"path": str(path), **verdict.facts()}
        if verdict.checked:
            saying.console.print(_table(verdict))
        for damage in reversed(verdict.damages):
            saying.damage(damage)
        if verdict.ok():
            facts = saying.facts
            seconds = time.perf_counter() - began
            saying.line(f"ok: {facts['entries']:,} entries, {facts['events']:,} events, {seconds:.2f} s")


def _verified(path: Path, run: str | None) -> Verdict:
    try:
        source = open_source(path)
    except JournalCorrupt as error:
        return Verdict([], [Damaged.of(error)])
    with closing(source):
        return verify_source(source, run and pick(source, run))


def _table(verdict: Verdict) -> Table:
    table = Table("run", "kind", "entries", "events", "archived", "snapshot", "checked")
    for run in verdict.checked:
        checked = "chain and fold" if run.folded else "chain only"
        entries = f"{run.first} to {run.last}"
        snapshot = f"of entry {run.snapshot}" if run.snapshot else ""
        table.add_row(run.run, run.kind, entries, f"{run.events:,}", f"{run.archived:,}", snapshot, checked)
    return table


@app.command()
def export(
    path: PathArgument,
    run: Annotated[str, typer.Argument(help="The run.")],
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    json: JsonOption = False,
) -> None:
    """Write all entries of a run, archived ones too, into one file with checksums.

    The file can be shown and verified like a journal, and used to repair one.

    Example:

        quoracy journal export quoracy-data bert bert.qseg
    """
    with _saying("journal export", json) as saying, closing(open_source(path)) as source:
        name = pick(source, run)
        if file.exists() and not force:
            raise ConfigError("file", str(file), "it is there already: choose another name, or give --force")
        first, last = source.first(name), source.last(name)
        size_bytes = write_durably(file, _records(source, name, first, last))
        saying.facts |= {"path": str(path), "run": name, "file": str(file)}
        saying.facts |= {"first": first, "last": last, "entries": last - first + 1, "size_bytes": size_bytes}
        if first > 1:
            saying.line(f"entries 1 to {first - 1} were deleted by retention and are not in the file")
        saying.line(f"{file}: entries {first} to {last} of run {name!r}, {size_bytes:,} bytes")


def _records(source: Source, run: str, first: int, last: int) -> Iterator[bytes]:
    yield encode_header(run)
    n = first
    while n <= last:
        for payload in source.read(run, n, min(PAGE, last - n + 1)):
            yield encode_record(n, payload)
            n += 1
    yield encode_end(last if last >= first else 0)


@app.command()
def repair(
    path: PathArgument,
    export: Annotated[Path | None, typer.Option("--from", help="An export to take missing entries from.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Go on although acknowledged entries are lost.")] = False,
    json: JsonOption = False,
) -> None:
    """Save what can be saved of a damaged journal. The damaged files are kept, as `journal.db.damaged-1` and so on.

    Missing and damaged entries are taken from an export if the chain of digests fits. What cannot be had is cut, from
    the first missing entry on; that needs `--yes`, and without it you are only told what would be lost.

    Examples:

        quoracy journal repair quoracy-data

        quoracy journal repair quoracy-data --from bert.qseg

        quoracy journal repair quoracy-data --yes
    """
    with _saying("journal repair", json) as saying:
        saying.facts |= {"path": str(path), "repaired": False, "plans": [], "kept_aside": [], "damage": None}
        before = _damages(path)
        if not before:
            saying.line("nothing is damaged")
            return
        saying.facts |= {"damage": msgspec.structs.asdict(before[0])}
        for damage in before:
            saying.line(f"damaged: {damage.sentence()}")
        directory = path.parent if path.name == "journal.db" else path
        with FileRepair(path, export) if is_segment(path) else DirectoryRepair(directory, export) as plan:
            saying.facts["plans"] = [msgspec.structs.asdict(each) for each in plan.plans]
            for each in plan.plans:
                saying.line(each.sentence())
            if any(each.loses() for each in plan.plans) and not yes:
                saying.fail(before[0].code)
                saying.line("nothing was changed; give --from EXPORT if there is one, or --yes to go on without them")
                return
            aside = plan.carry_out()
        saying.facts |= {"repaired": True, "kept_aside": [str(each) for each in aside]}
        saying.line(f"repaired; the damaged files are kept: {', '.join(each.name for each in aside)}")
        after = _verified(path, None)
        saying.facts["after"] = after.facts()
        for damage in after.damages:
            saying.damage(damage)


def _damages(path: Path) -> list[Damaged]:
    """What is wrong, or nothing. Raises what no repair can mend."""
    if path.is_dir() and not (path / "journal.db").exists() and any(path.glob("segments/*/*.qseg")):
        return [Damaged("journal_corrupt", "", 0, 0, "journal.db", "the file is missing")]
    damages = _verified(path, None).damages
    for damage in damages:
        if damage.code != "journal_corrupt":
            raise ConfigError("path", str(path), f"this is no damage that a repair could mend: {damage.what}")
    return damages
