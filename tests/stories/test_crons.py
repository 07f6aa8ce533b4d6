"""Crons: schedules in code. The code is the definition; a worker that starts makes the database what the code says.

app.crons.add("clear messages", every(minutes=5), clear_messages)
"""

import asyncio

import pytest

from evertick import ActionCtx, App, MutationCtx, QueryCtx, daily, every
from evertick.base.errors import Misuse, RegistrationError
from evertick.testing import World, hours, minutes, moment, seconds

app = App("chat")


@app.mutation(name="chat.clear")
def clear(ctx: MutationCtx, table: str = "messages") -> None:
    ctx.db.insert("cleared", {"table": table, "at": f"{ctx.now:%H:%M:%S}"})


@app.action(name="chat.archive")
async def archive(ctx: ActionCtx) -> None:
    await asyncio.sleep(150)


@app.mutation(name="chat.remind_every")
def remind_every(ctx: MutationCtx, user: str, minutes: int) -> None:
    app.crons.register(ctx, f"remind {user}", every(minutes=minutes), clear, user)


@app.query(name="chat.reminders")
def reminders(ctx: QueryCtx) -> list[str]:
    return [each.id for each in app.crons.list(ctx)]


app.crons.add("clear messages", every(minutes=5), clear)
app.crons.add("archive", every(minutes=1), archive)


def next_version() -> App:
    """The same program a week later: one cron is new, one changed, one is gone."""
    later = App("chat")

    @later.mutation(name="chat.clear")
    def clear(ctx: MutationCtx, table: str = "messages") -> None: ...

    later.crons.add("clear messages", every(minutes=10), clear)
    later.crons.add("daily report", daily(hour=9), clear, "reports")
    return later


def test_an_interval_runs_first_when_it_is_deployed(world: World) -> None:
    """And then every five minutes from there, however the process was started and stopped in between."""
    assert world.starts("clear messages") == [moment("00:00:00")]
    world.advance(minutes(7))
    world.outage(minutes(1))
    world.advance(minutes(3))

    assert [each["at"] for each in world.query("cleared")] == ["00:00:00", "00:05:00", "00:10:00"]


def test_at_most_one_run_of_a_cron_is_open(world: World) -> None:
    """What comes meanwhile is skipped, with a line in the log and a row in the ledger."""
    world.advance(minutes(5) + seconds(30))

    assert world.starts("archive") == [moment("00:00:00"), moment("00:03:00")]
    assert world.skips("archive") == [moment("00:01:00"), moment("00:02:00"), moment("00:04:00"), moment("00:05:00")]


def test_after_an_outage_a_cron_runs_once(world: World) -> None:
    """The latest time that was missed runs, the others are in the ledger as missed."""
    world.advance(minutes(7))
    world.outage(minutes(30))

    assert world.starts("clear messages") == [moment("00:00:00"), moment("00:05:00"), moment("00:37:00")]
    assert world.missed("clear messages") == [moment("00:10:00") + n * minutes(5) for n in range(5)]


def test_a_deployment_adds_updates_and_deletes(world: World) -> None:
    """The history of each cron says what the code changed."""
    world.advance(minutes(7))
    world.deploy(next_version())
    schedules = world.app.schedules

    assert [each.id for each in schedules.list(kind="cron").schedules] == ["clear messages", "daily report"]
    assert schedules.history("clear messages")[0].detail == (
        "times: every 5 minutes, counted from 1 January 2026 at 00:00"
        " -> every 10 minutes, counted from 1 January 2026 at 00:07"
    )
    assert schedules.history("archive")[0].action == "deleted"
    assert schedules.history("daily report")[0].actor == "code of chat"


def test_what_did_not_change_notices_nothing_of_a_deployment(world: World) -> None:
    """Its next time, its state and its counters stay, however often the program is deployed."""
    world.advance(minutes(7))
    before = world.app.schedules.get("clear messages")
    world.deploy(world.app)

    assert world.app.schedules.get("clear messages") == before


def test_a_cron_in_code_is_changed_in_the_code(world: World) -> None:
    """It can be paused, resumed and triggered; an update would be lost at the next deployment, and is refused."""
    world.app.schedules.pause("clear messages", "not today")
    world.app.schedules.trigger("clear messages")

    with pytest.raises(Misuse, match="declared in the code of the app 'chat'"):
        world.app.schedules.update("clear messages", when=every(hours=1))


def test_functions_register_crons_of_their_own(world: World) -> None:
    """With the transaction, like everything else. Such a cron runs first when its interval has passed once."""
    world.call(remind_every, "ada", 30)
    assert world.call(reminders) == ["remind ada"]
    world.advance(hours(1))

    assert world.starts("remind ada") == [moment("00:30:00"), moment("01:00:00")]


def test_a_name_is_taken_once(world: World) -> None:
    with pytest.raises(RegistrationError, match="Cron identifier registered twice: archive"):
        world.app.crons.add("archive", every(hours=1), archive)
