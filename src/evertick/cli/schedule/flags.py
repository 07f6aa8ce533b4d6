"""The flags that say what a schedule does and how: shared by `schedule create` and `schedule update`.

Their long forms, and the short ones that other schedulers' command lines have made habits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

import click

from evertick.app.functions.options import Retry
from evertick.base.errors import EvertickError, FunctionNotFound, InvalidArguments, Misuse
from evertick.base.escaping import printable
from evertick.base.records.jobs import GATEWAY_FUNCTION, SCRIPT_FUNCTION
from evertick.cli.core.flags import flag, flags, shared
from evertick.cli.schedule.spec_flags import parse_json
from evertick.recurrence.parse.duration import parse_milliseconds
from evertick.rules.schedules.policies import CATCH_UP_WINDOW_MIN_MS

if TYPE_CHECKING:
    from evertick.app.functions.function import Function, FunctionCall
    from evertick.app.schedules.options import ScheduleOptions
    from evertick.app.scheduling.job_builder import Functions


CATCH_UP_WINDOW_MIN: Final = timedelta(milliseconds=CATCH_UP_WINDOW_MIN_MS)
force_option: Final = click.option(
    "--force", is_flag=True, help="Take a function that nothing here has, though one of a similar name is there."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionFlags:
    """What the flags said, unread; None where they said nothing."""

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
        """Whether the flags define anything."""
        return replace(self, force=False) != DefinitionFlags()

    def call(self, functions: "Functions") -> "FunctionCall | None":
        """The function with its arguments, or None where neither is given by `--function`.

        Raises FunctionNotFound, also for one that is probably misspelt, InvalidArguments or Misuse.
        """
        from evertick.app.functions.function import FunctionCall

        resolved = self.resolved(functions)
        return None if resolved is None else FunctionCall(resolved, resolved.encode_args((), self.arguments()))

    def resolved(self, functions: "Functions") -> "Function[..., Any] | None":
        """The function; None if none is given. Raises FunctionNotFound, also for one that is probably misspelt.

        That of scripts where `--script` names one, that of gateways where `--gateway` does.
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
        """Raise Misuse if `--pool` is not the pool of the function; say so if nothing here knows that."""
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
        """The arguments by name; for a script its name and its input, for a gateway its command. Raises
        InvalidArguments.
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
        """Mention that a catch-up window is longer than what was given."""
        if self.catchup_window is not None and window(self.catchup_window) < CATCH_UP_WINDOW_MIN:
            click.echo("note: a catch-up window of less than 10s counts as 10s", err=True)

    def options(self) -> "ScheduleOptions":
        """What is given, in the words of `schedules.create`; a patch for `schedules.update` too."""
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
        return cast("ScheduleOptions", {name: value for name, value in given.items() if value is not None})


definition_options: Final = flags(DefinitionFlags, "definition")
"""The options, received as one `definition: DefinitionFlags`."""


def say_if_unseen(function: "Function[..., Any] | None", args: Mapping[str, Any] | None = None) -> None:
    """Mention that no worker may know the function yet, or that none takes these arguments.

    It may be misspelt, or be deployed later.
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
    """Raise FunctionNotFound for a function that is known by its name alone, if that is probably misspelt."""
    from evertick.app.functions_by_name import NamedFunction

    if isinstance(function, NamedFunction) and function.meant:
        meant = " or ".join(function.meant)
        raise FunctionNotFound(
            f"no worker, job or schedule has a function {function.name!r}; did you mean {meant}? "
            "--force takes it all the same"
        )


def json_object(text: str, flag: str, what: str) -> dict[str, Any]:
    """An object of JSON. Raises InvalidArguments."""
    value = json_value(text, flag)
    if not isinstance(value, dict):
        raise InvalidArguments(f"{flag} must hold a JSON object: {what}")
    return value


def json_value(text: str, flag: str) -> Any:
    """A value of JSON. Raises InvalidArguments."""
    try:
        return parse_json(text)
    except EvertickError as error:
        raise InvalidArguments(f"{flag}: {error}") from None


def retry_of(text: str) -> Retry:
    """A retry policy: a number of attempts, or an object with what `Retry` takes. Raises InvalidArguments, Misuse."""
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
    """A duration. Raises InvalidSpec."""
    return timedelta(milliseconds=parse_milliseconds(text))
