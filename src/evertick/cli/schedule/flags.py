"""The flags that say what a schedule does and how: shared by `schedule create` and `schedule update`.

Their long forms, and the short ones that other schedulers' command lines have made habits.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from evertick.app.functions.options import Retry
from evertick.base.errors import EvertickError, FunctionNotFound, InvalidArguments, InvalidSpec, Misuse
from evertick.base.escaping import printable, read_json, reason
from evertick.base.options import some
from evertick.base.records.jobs import GATEWAY_FUNCTION, SCRIPT_FUNCTION
from evertick.cli.core.flags import flag, flags, shared
from evertick.recurrence.parse.duration import parse_milliseconds
from evertick.rules.schedules.policies import CATCH_UP_WINDOW_MIN_MS

if TYPE_CHECKING:
    from evertick.app.functions.function import Function, FunctionCall
    from evertick.app.scheduling.job_builder import Functions
    from evertick.recurrence.spec.spec import Spec
    from evertick.recurrence.zones.zones import Edge, Zone


# -- The flags that say when: shared by `schedule preview`, `schedule create` and `schedule update`.
#
#     @click.command()
#     @spec_options
#     def create(spec_flags: SpecFlags, ...) -> None:
#         spec = spec_flags.spec()
#
# Every flag that names a source can be repeated; together they are a union. `--spec` takes the whole wire form at once.

SPEC_FILE_MAX = 4 * 1024 * 1024
SOURCES = ("crons", "intervals", "calendars", "rrules", "times")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecFlags:
    """The options that define the times of a schedule, as texts."""

    texts: tuple[str, ...] = flag(
        "--when", default=(), metavar="TEXT", help="A sentence such as 'every weekday at 9am'. Repeatable."
    )
    intervals: tuple[str, ...] = flag(
        "--interval", default=(), metavar="EVERY[/OFFSET]", help="Such as 5h/15m. Repeatable."
    )
    calendars: tuple[str, ...] = flag(
        "--calendar", "--cal", default=(), metavar="JSON", help='As {"dayOfWeek":"Fri","hour":"11"}.'
    )
    crons: tuple[str, ...] = flag("--cron", default=(), metavar="LINE", help="Such as '0 9 * * 1-5'.")
    rrules: tuple[str, ...] = flag("--rrule", default=(), metavar="TEXT|JSON", help="DTSTART and RRULE lines, or JSON.")
    times: tuple[str, ...] = flag("--at", default=(), metavar="TIME", help="A single moment. Repeatable.")
    excepted: tuple[str, ...] = flag(
        "--except", default=(), metavar="DATE|CRON|JSON",
        help='Such as 2027-01-01, "* * * * 0,6" or {"holidays":{"country":"US"}}.',
    )  # fmt: skip
    time_zone: str | None = flag("--time-zone", "--tz", metavar="ZONE", help="Such as Europe/Berlin; UTC unless given.")
    start_time: str | None = flag("--start-time", metavar="TIME", help="No occurrence before this moment.")
    end_time: str | None = flag("--end-time", metavar="TIME", help="No occurrence after this moment.")
    jitter: str | None = flag(
        "--jitter", metavar="DURATION", help="The most an occurrence may be delayed, such as 30s."
    )
    dialect: str | None = flag(
        "--dialect", type=click.Choice(["evertick", "temporal"]), help="Whose rules crons and calendars are read by."
    )
    whole: str | None = flag("--spec", metavar="JSON|@FILE", help="The whole spec in the wire form.")

    @property
    def given(self) -> bool:
        """Whether any flag was given."""
        return self != SpecFlags()

    @property
    def names_times(self) -> bool:
        """Whether an option defines times; others only bound or shift them."""
        named = (self.intervals, self.calendars, self.crons, self.rrules, self.texts, self.times, self.whole)
        return any(named)

    def wire(self, base: Mapping[str, Any] | None = None, now: int | None = None) -> dict[str, Any]:
        """The wire form of the spec. `base` is the spec to change: parts that no option sets keep their values.

        New times replace all times of the base, new exclusions replace its exclusions, and `--spec` replaces
        everything. `now` is the current time in seconds, by default the machine's.

        Raises InvalidSpec for an option with invalid JSON, time or sentence, and for options that contradict each
        other.
        """
        from evertick.recurrence.parse.moments import format_instant
        from evertick.recurrence.spec.spec import Dialect
        from evertick.recurrence.zones.names import zone_named

        whole, wire = self._whole(), {} if self.whole is not None else dict(base or {})
        said = self._said(whole, wire)
        if self.names_times:
            wire = {key: value for key, value in wire.items() if key not in SOURCES}
        if self.excepted or "except" in said:
            wire.pop("except", None)
        if said.get("time_zone", wire.get("time_zone")) != wire.get("time_zone"):
            wire.pop("time_zone_data", None)
        wire |= whole | {key: value for key, value in said.items() if not isinstance(value, list)}
        for name, value in (("time_zone", self.time_zone), ("jitter", self.jitter), ("dialect", self.dialect)):
            if value is not None:
                wire[name] = value

        def moment(text: str, flag: str, edge: "Edge" = "first") -> str:
            abbreviations = wire.get("dialect") == Dialect.TEMPORAL
            zone = zone_named(str(wire.get("time_zone") or "UTC"), abbreviations=abbreviations)
            return format_instant(parse_when(text, zone, flag, now, edge))

        for key, added in (
            ("crons", list(self.crons)),
            ("intervals", list(self.intervals)),
            ("calendars", [_json(text, "--calendar") for text in self.calendars]),
            ("rrules", [_json(text, "--rrule") if text.lstrip().startswith("{") else text for text in self.rrules]),
            ("times", [moment(text, "--at") if _is_word(text) else text for text in self.times]),
            ("except", [_json(text, "--except") if text.lstrip()[:1] in "{[" else text for text in self.excepted]),
        ):
            if added or key in said:
                wire[key] = [*(wire.get(key) or []), *said.get(key, ()), *added]
        if self.start_time:
            wire["start"] = moment(self.start_time, "--start-time")
        if self.end_time:
            wire["end"] = moment(self.end_time, "--end-time", "last")
        return wire

    def _whole(self) -> dict[str, Any]:
        """The value of `--spec`; empty if it is not given."""
        whole = {} if self.whole is None else _json(text_or_file(self.whole, "--spec"), "--spec")
        if not isinstance(whole, dict):
            raise InvalidSpec("--spec must be a JSON object")
        return whole

    def _said(self, whole: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
        """The texts of `--when` combined, in the wire form. Raises InvalidSpec if they contradict each other."""
        from evertick.recurrence.wire.writing import spec_to_wire

        if not self.texts:
            return {}
        if (self.dialect or whole.get("dialect") or base.get("dialect")) == "temporal":
            raise InvalidSpec("--when is read by Evertick's rules and does not go with the dialect temporal")
        zone = self.time_zone or whole.get("time_zone")
        if zone is None:
            named = sorted({named for text in self.texts if (named := _sentence(text).time_zone)})
            if len(named) > 1:
                raise InvalidSpec(f"the sentences name different time zones: {', '.join(named)}")
            zone = named[0] if named else None
        said: dict[str, Any] = {}
        for text in self.texts:
            spec = _sentence(text, zone, base.get("time_zone"))
            for key, value in spec_to_wire(spec).items():
                if isinstance(value, list):
                    said[key] = [*said.get(key, ()), *value]
                elif said.setdefault(key, value) != value:
                    raise InvalidSpec(f"two sentences differ in their {key}; say it once")
        flags = {"start": self.start_time, "end": self.end_time, "jitter": self.jitter}
        for key in said.keys() & {"start", "end", "jitter", "dst"}:
            if whole.get(key) or flags.get(key):
                raise InvalidSpec(f"the {key} is given by a sentence and by another flag; say it once")
        return said

    def spec(self, base: Mapping[str, Any] | None = None, now: int | None = None) -> "Spec":
        """The spec; see `wire`. Raises InvalidSpec with the name of the option."""
        from evertick.recurrence.wire.reading import spec_from_wire

        wire = self.wire(base, now)
        try:
            return spec_from_wire(wire)
        except InvalidSpec:
            self._blame({key: wire[key] for key in ("dialect",) if key in wire})
            raise

    def _blame(self, context: Mapping[str, Any]) -> None:
        """Raise InvalidSpec for the first option that is invalid by itself."""
        from evertick.recurrence.wire.reading import spec_from_wire

        for option, key, values in (
            ("--time-zone", "time_zone", [self.time_zone]),
            ("--cron", "crons", self.crons),
            ("--interval", "intervals", self.intervals),
            ("--calendar", "calendars", self.calendars),
            ("--rrule", "rrules", self.rrules),
            ("--at", "times", [text for text in self.times if not _is_word(text)]),
            ("--except", "except", self.excepted),
            ("--jitter", "jitter", [self.jitter]),
        ):
            for text in values:
                value = _json(text, option) if text and text.lstrip()[:1] in ("{", "[") else text
                try:
                    spec_from_wire({**context, key: value})
                except InvalidSpec as problem:
                    raise InvalidSpec(f"{option}: {str(problem).removeprefix('except ')}") from None


spec_options: Final = flags(SpecFlags, "spec_flags")
"""The options, received as one `spec_flags: SpecFlags`."""


def _is_word(text: str) -> bool:
    """Whether a time is a word such as "tomorrow", which a spec cannot contain."""
    return text in ("yesterday", "today", "tomorrow") or text.startswith("now")


def parse_when(text: str, zone: "Zone", what: str, now: int | None = None, edge: "Edge" = "first") -> int:
    """A time on the command line, in seconds since the epoch; see `typed_moment`.

    `now` is the current time in seconds, by default the machine's. Raises InvalidSpec.
    """
    from evertick.recurrence.parse.moments import typed_moment

    return typed_moment(text, what, zone, int(time.time()) if now is None else now, edge)


def parse_json(text: str) -> Any:
    """Parse JSON. Raises InvalidSpec for every failure, including nesting that is too deep; see `read_json`."""
    try:
        return read_json(text)
    except RecursionError:
        raise InvalidSpec("JSON nested too deeply") from None
    except ValueError as problem:
        raise InvalidSpec(f"not JSON: {str(problem)[:200]}") from None


def _json(text: str, flag: str) -> Any:
    from evertick.recurrence.spec.sources import shown

    try:
        return parse_json(text)
    except InvalidSpec as problem:
        raise InvalidSpec(f"{flag} {shown(text)}: {problem}") from None


def _sentence(text: str, zone: str | None = None, default_zone: str | None = None) -> "Spec":
    """The spec of a text of `--when`. Raises InvalidSpec with the name of the option."""
    # The grammar is loaded for --when alone: other commands read only times and JSON with this module.
    from evertick.recurrence.english.parser.sentence import spec_of_text

    try:
        return spec_of_text(text, zone, default_zone=default_zone)
    except InvalidSpec as problem:
        raise InvalidSpec(f"--when: {problem}") from None


def text_or_file(text: str, flag: str) -> str:
    """The text of an option, or after `@` the text of the file. Raises InvalidSpec."""
    if not text.startswith("@"):
        return text
    path = Path(text[1:])
    try:
        if path.stat().st_size > SPEC_FILE_MAX:
            raise InvalidSpec(f"{path} is larger than {SPEC_FILE_MAX} bytes")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidSpec(f"{flag} {text}: {reason(problem)}") from None


CATCH_UP_WINDOW_MIN: Final = timedelta(milliseconds=CATCH_UP_WINDOW_MIN_MS)
force_option: Final = click.option(
    "--force", is_flag=True, help="Take a function that nothing here has, though one of a similar name is there."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionFlags:
    """The options that define a schedule other than its times; None means not given."""

    function: str | None = flag(
        "--function", "--type", metavar="NAME", help="The function to call, such as app.report."
    )
    script: str | None = flag(
        "--script", metavar="NAME", help="The script to run, in place of a function; --input is its input."
    )
    gateway: str | None = flag(
        "--gateway",
        metavar="NAME",
        help="Run --command of this gateway, if the app's code uses app.gateways; --input has its arguments, as texts.",
    )
    command: str | None = flag("--command", metavar="NAME", help="A command or builtin that --gateway lists.")
    offline: str | None = flag(
        "--offline", type=click.Choice(("fail", "skip")), help="What becomes of a run while --gateway is offline."
    )
    input_text: str | None = flag("--input", "-i", metavar="JSON", help='Its arguments by name, as {"id": 3}.')
    workflow_id: str | None = flag("--workflow-id", "--wid", metavar="STEM", help="Runs are named STEM-<nominal time>.")
    pool: str | None = flag(
        "--pool", "--task-queue", "--tq", metavar="POOL",
        help="The pool of the function, which its code names: another one is refused.",
    )  # fmt: skip
    overlap: str | None = flag(
        "--overlap-policy", metavar="POLICY",
        help="Skip, BufferOne, BufferAll, CancelOther, TerminateOther or AllowAll.",
    )  # fmt: skip
    concurrency: int | None = flag(
        "--concurrency", metavar="N", help="Runs that may be open before the overlap policy acts."
    )
    catch_up: str | None = flag("--catch-up", metavar="POLICY", help="After an outage: all, latest or none.")
    catchup_window: str | None = flag(
        "--catchup-window", metavar="DURATION",
        help="How late an occurrence may be, at least 10s (less counts as 10s); 365d unless given.",
    )  # fmt: skip
    pause_on_failure: bool | None = flag("--pause-on-failure/--no-pause-on-failure", help="Pause when a run fails.")
    retry: str | None = flag(
        "--retry", metavar="N|JSON",
        help='Attempts of each run, as 5; or with waits, as {"attempts":5,"first":"1s","factor":2,"cap":"1h"}.',
    )  # fmt: skip
    buffer_limit: int | None = flag("--buffer-limit", metavar="N", help="Occurrences that may wait, at most 1000.")
    run_timeout: str | None = flag(
        "--run-timeout", "--execution-timeout", metavar="DURATION",
        help="How long a run may be open, with its retries; then it is terminated. No limit unless given.",
    )  # fmt: skip
    remaining_actions: int | None = flag("--remaining-actions", metavar="N", help="End after so many scheduled runs.")
    memo: str | None = flag("--memo", metavar="JSON", help="An object to be kept with the schedule.")
    notes: str | None = flag("--notes", "--note", metavar="TEXT", help="What people should know about it.")
    run_id_template: str | None = flag(
        "--run-id-template", metavar="TEXT", help="Names of runs, as '{workflow_id}-{nominal}'."
    )

    force: bool = shared(force_option, default=False)

    @property
    def given(self) -> bool:
        """Whether any option is given."""
        return replace(self, force=False) != DefinitionFlags()

    def call(self, functions: "Functions") -> "FunctionCall | None":
        """The function with its arguments; None if no function is given.

        Raises FunctionNotFound (also for a name that is probably misspelt), InvalidArguments or Misuse.
        """
        from evertick.app.functions.function import FunctionCall

        resolved = self.resolved(functions)
        return None if resolved is None else FunctionCall(resolved, resolved.encode_args((), self.arguments()))

    def resolved(self, functions: "Functions") -> "Function[..., Any] | None":
        """The given function; None if none is given.

        With `--script` it is the function that runs scripts, with `--gateway` the one that runs gateway commands.
        Raises FunctionNotFound, also for a name that is probably misspelt.
        """
        named = {"--function": self.function, "--script": self.script, "--gateway": self.gateway}
        given = [flag for flag, value in named.items() if value is not None]
        if len(given) > 1:
            raise click.UsageError(f"{' and '.join(given)} both say what is run; give one")
        if self.gateway is not None and self.command is None:
            raise click.UsageError("--gateway needs --command, which it is to run")
        if self.gateway is None and (self.command is not None or self.offline is not None):
            raise click.UsageError("--command and --offline go with --gateway")
        if self.script is not None:
            return functions.resolve(SCRIPT_FUNCTION)
        if self.gateway is not None:
            return functions.resolve(GATEWAY_FUNCTION)
        if self.function is None:
            return None
        resolved = functions.resolve(self.function)
        if not self.force:
            check_spelling(resolved)
        return resolved

    def check_pool(self, call: "FunctionCall | None", pool_of: "Callable[[Function[..., Any]], str | None]") -> None:
        """Raise Misuse if `--pool` is not the pool of the function; print a note if that pool is not known."""
        if self.pool is None:
            return
        if call is None:
            raise click.UsageError("--pool is that of the function: give --function too")
        name, found = call.function.name, pool_of(call.function)
        if found is None:
            click.echo(
                f"note: nothing here knows the pool of {printable(name)}; its runs are in that of its code", err=True
            )
        elif found != self.pool:
            raise Misuse(
                f"{name} is in the pool {found!r} and not in {self.pool!r}: its code names its pool, as in "
                f"@app.action(pool={self.pool!r})"
            )

    def arguments(self) -> dict[str, Any]:
        """The arguments by name; for a script its name and input, for a gateway its command.

        Raises InvalidArguments.
        """
        if self.gateway is not None:
            text = self.input_text
            arguments = {} if text is None else json_object(text, "--input", "arguments by name, as texts")
            given = {"arguments": arguments} if arguments else {}
            return {"gateway": self.gateway, "command": self.command, "offline": self.offline or "fail", **given}
        if self.script is not None:
            given = {} if self.input_text is None else {"input": json_value(self.input_text, "--input")}
            return {"script": self.script, **given}
        if self.input_text is None:
            return {}
        return json_object(self.input_text, "--input", "arguments by name")

    def say_if_lifted(self) -> None:
        """Print a note if the catch-up window is below the minimum, which then applies."""
        if self.catchup_window is not None and window(self.catchup_window) < CATCH_UP_WINDOW_MIN:
            click.echo("note: a catch-up window of less than 10s counts as 10s", err=True)

    def options(self) -> dict[str, Any]:
        """The given options as fields of `CreateOptions` or `UpdateOptions`."""
        given: dict[str, Any] = {
            "overlap": self.overlap,
            "concurrency_limit": self.concurrency,
            "catch_up": self.catch_up,
            "catch_up_window": None if self.catchup_window is None else window(self.catchup_window),
            "pause_on_failure": self.pause_on_failure,
            "buffer_limit": self.buffer_limit,
            "run_timeout": None if self.run_timeout is None else window(self.run_timeout),
            "retry": None if self.retry is None else retry_of(self.retry),
            "memo": None if self.memo is None else json_object(self.memo, "--memo", "what you want to keep"),
            "workflow_id": self.workflow_id,
            "run_id_template": self.run_id_template,
            "remaining_actions": self.remaining_actions,
            "note": self.notes,
        }
        return some(given)


definition_options: Final = flags(DefinitionFlags, "definition")
"""The options, received as one `definition: DefinitionFlags`."""


def say_if_unseen(function: "Function[..., Any] | None", args: Mapping[str, Any] | None = None) -> None:
    """Print a note if nothing in the database has used the function, or no live worker accepts these arguments.

    The name may be misspelt, or the function may be deployed later.
    """
    from evertick.app.functions_by_name import NamedFunction

    if not isinstance(function, NamedFunction):
        return
    if args is not None and (problem := function.misfit(args)):
        click.echo(
            f"note: no live worker's {printable(function.name)}{printable(function.signatures[0])} takes these "
            f"arguments: {printable(problem)}; its runs fail until they fit",
            err=True,
        )
    if not function.seen:
        click.echo(
            f"note: nothing in this database has called {printable(function.name)} yet; "
            "its runs wait until a worker knows it",
            err=True,
        )


def check_spelling(function: "Function[..., Any]") -> None:
    """Raise FunctionNotFound if the name of a function whose code is not available is probably misspelt."""
    from evertick.app.functions_by_name import NamedFunction

    if isinstance(function, NamedFunction) and function.meant:
        meant = " or ".join(function.meant)
        raise FunctionNotFound(
            f"no worker, job or schedule has a function {function.name!r}; did you mean {meant}? "
            "--force takes it all the same"
        )


def json_object(text: str, flag: str, what: str) -> dict[str, Any]:
    """Parse a JSON object. Raises InvalidArguments."""
    value = json_value(text, flag)
    if not isinstance(value, dict):
        raise InvalidArguments(f"{flag} must hold a JSON object: {what}")
    return value


def json_value(text: str, flag: str) -> Any:
    """Parse a JSON value. Raises InvalidArguments."""
    try:
        return parse_json(text)
    except EvertickError as error:
        raise InvalidArguments(f"{flag}: {error}") from None


def retry_of(text: str) -> Retry:
    """A retry policy: a number of attempts, or JSON with arguments of `Retry`. Raises InvalidArguments, Misuse."""
    if text.strip().isdecimal():
        return Retry(int(text))
    given = json_object(text, "--retry", "attempts, and perhaps first, factor, cap and jitter")
    unknown = given.keys() - {"attempts", "first", "factor", "cap", "jitter"}
    if unknown or "attempts" not in given:
        raise InvalidArguments("--retry takes attempts, and perhaps first, factor, cap and jitter, and no others")
    for name in ("first", "cap"):
        if isinstance(given.get(name), str):
            given[name] = window(given[name])
    return Retry(given.pop("attempts"), **given)


def window(text: str) -> timedelta:
    """Parse a duration. Raises InvalidSpec."""
    return timedelta(milliseconds=parse_milliseconds(text))
