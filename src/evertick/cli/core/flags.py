"""Groups of options: several options that a command receives as one record.

list_options = grouped(ListFlags, "flags", click.option("--query", ...), click.option("--sort", ...))

@click.command()
@list_options
def list_schedules(flags: ListFlags) -> None: ...
"""

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar, cast

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]


def grouped(record: type[Any], name: str, *options: Callable[[Any], Any]) -> Decorator[Any]:
    """A decorator that gives a command `options`; it receives them as the argument `name`, a dataclass `record`.

    Fields that no option of the command sets keep their defaults.
    """
    known = [field.name for field in fields(record)]

    def give(command: Command) -> Command:
        @wraps(command)
        def gathered(*args: Any, **values: Any) -> Any:
            own = {field: values.pop(field) for field in known if field in values}
            return command(*args, **{name: record(**own)}, **values)

        wrapped: Callable[..., Any] = gathered
        for option in reversed(options):
            wrapped = option(wrapped)
        return cast("Command", wrapped)

    return give
