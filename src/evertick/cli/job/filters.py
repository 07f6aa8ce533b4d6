"""What commands that choose jobs by filters share: the filters, moments, and names that must not be misspelt."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

import click

from evertick.base.escaping import printable
from evertick.base.instants import SECOND_MS, Instant, to_datetime
from evertick.base.records.jobs import JobState
from evertick.cli.core.flags import flag, shared

if TYPE_CHECKING:
    from evertick.app.scheduling.choice import JobsWhere
    from evertick.recurrence.zones.zones import Edge

occurrence_from_option: Final = click.option(
    "--occurrence-from", metavar="TIME", help="Runs of schedules for this nominal time or later."
)
occurrence_until_option: Final = click.option(
    "--occurrence-until",
    metavar="TIME",
    help="Runs of schedules for nominal times before this; a date: up to its end.",
)


@dataclass(frozen=True, slots=True)
class JobFilters:
    """The options that select jobs."""

    function: str | None = flag("--function", metavar="NAME", help="Jobs of this function, such as app.destruct.")
    schedule: str | None = flag("--schedule", metavar="ID", help="Jobs that this schedule has started.")
    key: str | None = flag("--key", metavar="KEY", help="Jobs that were scheduled with this key.")
    pool: str | None = flag("--pool", metavar="NAME", help="Jobs of this pool.")
    limit_key: str | None = flag("--limit-key", metavar="KEY", help="Jobs with this limit key.")
    error: str | None = flag("--error", metavar="TEXT", help="Jobs whose error says this, such as TimeoutError.")
    blocked: bool = flag("--blocked", default=False, help="Due jobs that no live worker runs.")
    not_retried: bool = flag("--not-retried", default=False, help="Failed jobs, not run again; no calls of runs.")
    without_runs: bool = flag("--without-runs", default=False, help="Jobs that are not runs of workflows.")
    since: str | None = flag("--since", metavar="TIME", help="Jobs due at this time or later, such as now-1h.")
    until: str | None = flag("--until", metavar="TIME", help="Jobs due before this time; a date: up to its end.")
    occurrence_from: str | None = shared(occurrence_from_option)
    occurrence_until: str | None = shared(occurrence_until_option)

    @property
    def is_given(self) -> bool:
        """Whether any filter is given."""
        texts = (
            self.function, self.schedule, self.key, self.pool, self.limit_key, self.error, self.since, self.until,
            self.occurrence_from, self.occurrence_until,
        )  # fmt: skip
        return self.blocked or self.not_retried or self.without_runs or any(each is not None for each in texts)

    def words(self, jobs: str) -> str:
        """A short phrase for the selected jobs."""
        of = f" of {printable(self.function)}" if self.function else ""
        return f"{jobs}{of}{' that the filters choose' if replace(self, function=None).is_given else ''}"

    def chosen_at(self, now: Instant, states: tuple[JobState, ...]) -> "JobsWhere":
        """The filters as arguments of `app.jobs.list` and `client.jobs.list`. Raises InvalidSpec, UsageError."""
        if self.pool is not None:
            from evertick.base.ids import check_pool

            check_pool(self.pool)
        if self.error == "":
            raise click.UsageError("--error takes a text that is not empty")
        if self.blocked and states and JobState.PENDING not in states:
            raise click.UsageError("--blocked: only pending jobs can be blocked")
        if self.not_retried and (self.blocked or set(states) - {JobState.FAILED}):
            raise click.UsageError("--not-retried: only failed jobs are meant; leave out --blocked and other states")
        if self.not_retried:
            states = (JobState.FAILED,)
        given: dict[str, Any] = {
            "function": self.function, "schedule": self.schedule, "key": self.key, "error": self.error,
            "due_from": moment_at(now, self.since, "--since"),
            "due_until": moment_at(now, self.until, "--until", "after"),
            "occurrence_from": moment_at(now, self.occurrence_from, "--occurrence-from"),
            "occurrence_until": moment_at(now, self.occurrence_until, "--occurrence-until", "after"),
            "pool": self.pool, "limit_key": self.limit_key, "blocked": self.blocked or None,
            "not_retried": self.not_retried or None, "without_runs": self.without_runs or None,
            "state": (JobState.PENDING,) if self.blocked else states or None,
        }  # fmt: skip
        return cast("JobsWhere", {name: value for name, value in given.items() if value is not None})


def moment_at(now: Instant, text: str | None, what: str, edge: "Edge" = "first") -> datetime | None:
    """The time in `text`, the value of the flag `what`; relative times count from `now`. None if it is not given.

    Raises InvalidSpec.
    """
    if text is None:
        return None
    from evertick.cli.schedule.flags import parse_when
    from evertick.recurrence.zones.names import zone_named

    return to_datetime(Instant(parse_when(text, zone_named("UTC"), what, now // SECOND_MS, edge) * SECOND_MS))
