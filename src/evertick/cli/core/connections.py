"""Which server: for commands that work over HTTP as well as on a database.

`--url` counts, or `--profile`, then EVERTICK_PROFILE; where none is given, commands work on a database. A profile is a
table of `evertick/profiles.toml` in the user's folder of configuration:

    [production]
    url = "https://jobs.example.org"
    tenant = "acme"                      # that of the token unless given, or "default"
    token_file = "production.token"      # next to profiles.toml, unless it is an absolute path

The token is `--token`, or what `--token-file` holds, then EVERTICK_TOKEN, then the profile's file. A file of a token
must be readable by its owner alone. A token is never printed: records of it have no repr, and errors do not quote it.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from evertick.base.errors import Misuse
from evertick.base.ids import TenantId, tenant_named

if TYPE_CHECKING:
    from evertick.client.clients import Client

TOKEN_VARIABLE: Final = "EVERTICK_TOKEN"  # noqa: S105  # a name
PROFILE_VARIABLE: Final = "EVERTICK_PROFILE"
PROFILES_FILE: Final = "profiles.toml"
TOKEN_BYTES_MAX: Final = 4_096
KEY: Final = "evertick.server"
"""Under which a command's context keeps the options that name a server."""
_PAGE: Final = re.compile(r"(.+?://.+?)/t/[^/]+(?:/.*)?")
"""The address of a page of the dashboard, and of its server in that."""
FIELDS: Final = frozenset({"url", "tenant", "token_file"})

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server: its address, the default tenant of commands, and the token."""

    url: str
    tenant: TenantId | None = None
    token: str | None = field(default=None, repr=False)


def server_options(command: Command) -> Command:
    """Add `--url`, `--token`, `--token-file` and `--profile`, which `chosen_server` reads."""
    for name, metavar, text in reversed(_OPTIONS):
        option = click.option(name, metavar=metavar, expose_value=False, callback=_keep, help=text)
        command = option(command)
    return command


def no_server_options(command: Command) -> Command:
    """Refuse the options of `server_options`: for commands that work only on a database."""
    for name, metavar, _ in reversed(_OPTIONS):
        option = click.option(name, metavar=metavar, expose_value=False, callback=_refuse, hidden=True)
        command = option(command)
    return command


_OPTIONS: Final = (
    ("--url", "URL", "The server (evertick serve) to work on instead of a database, such as https://jobs.example.org."),
    ("--profile", "NAME", "The server that profiles.toml names so; else EVERTICK_PROFILE."),
    ("--token-file", "FILE", "A file with the server's token, readable by you alone."),
    ("--token", "TOKEN", "The token itself; other users of the machine may see it. Better: EVERTICK_TOKEN."),
)


def _keep(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta.setdefault(KEY, {})[parameter.name] = value


def _refuse(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError(needs_database(context, f"--{str(parameter.name).replace('_', '-')}"))


def needs_database(context: click.Context, option: str) -> str:
    """The error message for a command that does not work over HTTP."""
    words = context.command_path.removeprefix("evertick ")
    return f"`{words}` needs the database and does not work over HTTP: leave out {option}, and name one with --db"


def chosen_server(db: str | None = None) -> Server | None:
    """The server from the options of the current command; None if it works on a database.

    Raises Misuse for options that contradict each other, and for a profile or a token that cannot be read.
    """
    context = click.get_current_context(silent=True)
    given: Mapping[str, str] = {} if context is None else context.meta.get(KEY, {})
    if db is not None:
        if given:
            raise Misuse(f"--db names a database and {_named(given)} a server; give one of them")
        return None
    if "url" in given and "profile" in given:
        raise Misuse("--url and --profile name two servers; give one of them")
    if "token" in given and "token_file" in given:
        raise Misuse("--token and --token-file give two tokens; give one of them")
    if "url" in given:
        return Server(url=checked_url(given["url"], "--url"), token=_token(given, None))
    name = given.get("profile") or os.environ.get(PROFILE_VARIABLE)
    if name:
        return _of_profile(name, given)
    if given:
        raise Misuse(f"{_named(given)} is for a server; name it with --url or --profile")
    return None


def refuse_server(db: str | None) -> None:
    """Raise Misuse if the current command was given a server although it needs the database."""
    server = chosen_server(db)
    if server is not None:
        context = click.get_current_context()
        given = context.meta.get(KEY, {})
        option = _named(given) if given else PROFILE_VARIABLE
        raise Misuse(needs_database(context, option))


@contextmanager
def open_client(server: Server, tenant: TenantId | None, **options: Any) -> Iterator["Client"]:
    """A client of the server, for the data of `tenant`, or else of the profile's tenant, or else of the token's.

    `options` are further options of `Client`.

    Raises Misuse if the HTTP library is not installed.
    """
    try:
        from evertick.client import Client
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "httpx2":
            raise
        raise Misuse("a server is reached with httpx2: pip install 'evertick[client]'") from None
    with Client(server.url, token=server.token, tenant=tenant or server.tenant, **options) as client:
        yield client


def _named(given: Mapping[str, str]) -> str:
    """The first option that was given."""
    return next(name for name, _, _ in _OPTIONS if name[2:].replace("-", "_") in given)


def checked_url(url: str, what: str) -> str:
    """The address of a server. Raises Misuse if it is invalid or contains a password."""
    if not url.startswith(("http://", "https://")):
        raise Misuse(f"{what} takes the address of a server that begins with http:// or https://, not {url!r}")
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise Misuse(f"{what}: no password belongs into the address; a token opens the server, see --token-file")
    if page := _PAGE.fullmatch(url):
        raise Misuse(f"{what} takes the server's address alone, not that of a page of its dashboard: {page[1]}")
    return url


# -- profiles


def config_folder() -> Path:
    """The configuration folder of Evertick: below XDG_CONFIG_HOME, or APPDATA on Windows."""
    base = os.environ.get("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "evertick"


def profile_names() -> Iterable[str]:
    """The names of all profiles. Raises Misuse if the file cannot be read."""
    return _profiles(config_folder() / PROFILES_FILE)


def _of_profile(name: str, given: Mapping[str, str]) -> Server:
    file = config_folder() / PROFILES_FILE
    profile = _profiles(file).get(name)
    where = f"the profile {name!r} in {file}"
    if not isinstance(profile, dict):
        raise Misuse(f'there is no profile {name!r} in {file}; write [{name}] and url = "https://..." in it')
    if unknown := sorted(profile.keys() - FIELDS):
        raise Misuse(f"{where}: there is no {', '.join(unknown)}; a profile has url, tenant and token_file")
    if not all(isinstance(value, str) for value in profile.values()) or "url" not in profile:
        raise Misuse(f"{where} needs url; url, tenant and token_file are texts")
    token_file = file.parent / profile["token_file"] if "token_file" in profile else None
    return Server(
        url=checked_url(profile["url"], where),
        tenant=tenant_named(profile["tenant"]) if "tenant" in profile else None,
        token=_token(given, token_file),
    )


def _profiles(file: Path) -> Mapping[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Misuse(f"{file} cannot be read as TOML: {error}") from None


# -- tokens


def _token(given: Mapping[str, str], of_profile: Path | None) -> str | None:
    """The token to send; None if there is none. Raises Misuse for a file that others may read, or that has no token."""
    if "token" in given:
        return _checked(given["token"], "--token")
    if "token_file" in given:
        return read_token(Path(given["token_file"]))
    if text := os.environ.get(TOKEN_VARIABLE):
        return _checked(text, TOKEN_VARIABLE)
    return None if of_profile is None else read_token(of_profile)


def read_token(file: Path) -> str:
    """The token in a file. Raises Misuse if it has none, or if others than its owner may read the file."""
    try:
        with file.open("rb") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            if os.name == "posix" and mode & 0o077:
                raise Misuse(f"{file} holds a token and others may read it (mode {mode:o}): chmod 600 {file}")
            text = opened.read(TOKEN_BYTES_MAX + 1)
    except OSError as error:
        raise Misuse(f"the token in {file} cannot be read: {error.strerror}") from None
    if len(text) > TOKEN_BYTES_MAX:
        raise Misuse(f"{file} is too long for a token")
    return _checked(text.decode("latin-1"), str(file))


def _checked(text: str, what: str) -> str:
    """The token without surrounding white space. Raises Misuse, whose message does not contain the token."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Misuse(f"{what} holds no token; one looks like evt_...")
    return token
