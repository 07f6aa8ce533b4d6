"""Arguments under new names, for what was scheduled before a parameter was renamed."""

from collections.abc import Mapping
from typing import Any

from evertick.base.errors import InvalidArguments, Misuse


def renamed_args(args: Mapping[str, Any], names: Mapping[str, str], whose: str) -> dict[str, Any]:
    """Arguments with the old names of `names` replaced by the new ones; the others stay.

    Raises InvalidArguments, which begins with `whose`, if an argument is not there, or one has a new name already.
    """
    for old, new in names.items():
        if old not in args:
            raise InvalidArguments(f"{whose} has no argument {old!r}; it has {', '.join(args) or 'none'}")
        if new in args:
            raise InvalidArguments(f"{whose} has the argument {new!r} already")
    return {names.get(name, name): value for name, value in args.items()}


def check_names(names: Mapping[str, str]) -> None:
    """Raise Misuse unless `names` maps argument names to new, different ones."""
    if not isinstance(names, Mapping) or not names:
        raise Misuse(f"rename= takes old names with new ones, such as {{'email': 'address'}}, not {names!r}")
    for name in (*names, *names.values()):
        if not isinstance(name, str) or not name.isidentifier():
            raise Misuse(f"rename= takes names of arguments, not {name!r}")
    if len(set(names.values())) < len(names):
        raise Misuse("rename= gives two arguments the same name")
