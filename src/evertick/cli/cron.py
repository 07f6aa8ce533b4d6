"""`evertick cron ...`: the crons that an app's code declares, and those that it registers at run time.

They are schedules like any other, so `evertick schedule` shows and explains them too. What they are is changed in the
code; they can be paused and triggered here.
"""

import click

from evertick.cli.databases import db_option
from evertick.cli.lazy import LazyGroup
from evertick.cli.output import chosen_fields, fields_option, output_option
from evertick.cli.schedule_desk import open_desk
from evertick.cli.schedule_list import LIMIT_DEFAULT, LIMIT_MAX, write_description, write_list
from evertick.cli.schedule_pause import from_now_option, pause_one, resume_one
from evertick.cli.schedule_rows import OCCURRENCE_FIELDS, time_option
from evertick.cli.schedule_trigger import SHOWN, trigger_one

KIND = "cron"


@click.group(cls=LazyGroup)
def cron() -> None:
    """Crons declared in code: when they run, and what became of them."""


@cron.command("list")
@click.option("--query", "-q", metavar="TERMS", default="", help="Such as 'state:paused next<1h'.")
@click.option("--sort", type=click.Choice(("id", "next")), default="next", show_default=True)
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=LIMIT_DEFAULT, show_default=True)
@click.option("--long", "is_long", is_flag=True, help="More columns.")
@time_option
@db_option
@output_option
@fields_option
def list_crons(
    query: str, sort: str, limit: int, is_long: bool, time_style: str | None, db: str | None, output: str | None,
    fields: str | None,
) -> None:  # fmt: skip
    """List crons, the one that runs next first."""
    write_list(query, KIND, sort, limit, is_long, time_style, db, output, fields)


@cron.command("get")
@click.argument("name")
@time_option
@db_option
@output_option
@fields_option
def get(name: str, time_style: str | None, db: str | None, output: str | None, fields: str | None) -> None:
    """Show a cron: times, function, policies, state, and its recent, current and coming runs."""
    write_description(name, KIND, time_style, db, output, fields)


@cron.command("trigger")
@click.argument("name")
@click.option("--overlap-policy", "overlap", metavar="POLICY", help="For this run; AllowAll means now, whatever runs.")
@click.option("--wait", is_flag=True, help="Wait for the run's end; the exit code tells how it ended.")
@time_option
@db_option
@output_option
@fields_option
def trigger(
    name: str, overlap: str | None, wait: bool, time_style: str | None, db: str | None, output: str | None,
    fields: str | None,
) -> int:  # fmt: skip
    """Start one run of a cron now."""
    chosen = chosen_fields(fields, OCCURRENCE_FIELDS, OCCURRENCE_FIELDS if output in ("json", "jsonl") else SHOWN)
    with open_desk(db) as desk:
        return trigger_one(desk, name, overlap, None, None, chosen, time_style, output,
                           wait_s=float("inf") if wait else None, kind=KIND)  # fmt: skip


@cron.command("pause")
@click.argument("name")
@click.option("--reason", "--note", "reason", metavar="TEXT", help="Why; asked for at a terminal.")
@click.option("--until", metavar="TIME", help="When it goes on by itself, such as now+2h.")
@db_option
def pause(name: str, reason: str | None, until: str | None, db: str | None) -> None:
    """Let a cron rest. Starting the app again does not resume it."""
    with open_desk(db) as desk:
        pause_one(desk, name, reason, until, None, kind=KIND)


@cron.command("resume")
@click.argument("name")
@click.option("--reason", "--note", "reason", metavar="TEXT", help="What has changed.")
@from_now_option
@db_option
def resume(name: str, reason: str | None, from_now: bool, db: str | None) -> None:
    """Let a cron go on, from now."""
    with open_desk(db) as desk:
        resume_one(desk, name, reason, None, from_now=from_now, kind=KIND)
