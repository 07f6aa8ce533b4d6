"""`evertick schedule export`: schedules as a file that `schedule apply` reads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from evertick.base.cures import no_schedule
from evertick.base.errors import Misuse
from evertick.base.escaping import printable
from evertick.cli.core.databases import chosen_tenant, data_options
from evertick.cli.core.flags import flag, flags
from evertick.cli.schedule.files.json_form import json_of
from evertick.cli.schedule.files.parsed import CRONS, SCHEDULES
from evertick.cli.schedule.files.scope import Scope
from evertick.cli.schedule.session import Session, open_session
from evertick.rules.schedules.metadata import CODE

if TYPE_CHECKING:
    from evertick.api.schedules import ScheduleSummary


@dataclass(frozen=True, slots=True)
class ExportFlags:
    """Which schedules, and in which form."""

    query: str = flag("--query", "-q", metavar="TERMS", default="", help="Such as 'state:paused function:app.send'.")
    with_crons: bool = flag("--crons", default=False, help="Also crons of code, to be read; apply leaves them alone.")
    form: str = flag("-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", show_default=True)


@click.command()
@click.argument("names", metavar="[ID]...", nargs=-1)
@flags(Scope, "scope")
@flags(ExportFlags, "chosen")
@data_options
def export(names: tuple[str, ...], scope: Scope, chosen: ExportFlags, db: str | None) -> None:
    """Write schedules as a file: all, those that are named, or those that the flags choose.

    It has what differs from the defaults. Schedules that have ended are left out, since none can be made that way.
    """
    from evertick.app.schedules.written import written
    from evertick.store.records.schedule import UNREADABLE

    yaml_of = yaml_writer() if chosen.form == "yaml" else json_of
    with open_session(db) as session:
        found = _chosen(session, names, scope, chosen.query)
        of_code = [each for each in found if each.source == CODE and each.status != UNREADABLE]
        ended = [each.id for each in found if each.status == "completed" and each.source != CODE]
        unreadable = [each.id for each in found if each.status == UNREADABLE]
        kept = [each for each in found if each not in of_code and each.id not in {*ended, *unreadable}]
        value = {SCHEDULES: [written(session.schedules.get(each.id)) for each in kept]}
        if chosen.with_crons:
            value[CRONS] = [written(session.schedules.get(each.id)) for each in of_code]
    click.echo(yaml_of(value), nl=False)
    for left, why in ((ended, "have ended"), (unreadable, "cannot be read by this release")):
        if left:
            click.echo(f"note: left out, because they {why}: {printable(', '.join(left))}", err=True)


def yaml_writer() -> Callable[[Any], str]:
    """What writes YAML. Raises Misuse if the library is not installed."""
    try:
        from evertick.cli.schedule.files.yaml_form import yaml_of
    except ModuleNotFoundError:
        raise Misuse("YAML needs the extra: pip install 'evertick[yaml]'; or give -o json") from None
    return yaml_of


def _chosen(session: Session, names: tuple[str, ...], scope: Scope, query: str) -> "list[ScheduleSummary]":
    from evertick.app.schedules.lists import parse_query

    if names and (scope or query):
        raise click.UsageError("give ids, or choose with flags, not both")
    found = list(scope.found(session, **parse_query(query, session.now)))
    if not names:
        return found
    known: dict[str, ScheduleSummary] = {each.id: each for each in found}
    for name in names:
        if name not in known:
            raise no_schedule(name, chosen_tenant(), known)
    return [known[name] for name in sorted(set(names))]
