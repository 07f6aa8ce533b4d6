"""`gateway.toml`: the name of a gateway, its address, its platform, and its permissions.

Commands and reachable hosts are defined only in this file; no request can add any. Paths are relative to its folder.
"""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from evertick.api.gateways import NewAction, NewSchedule
from evertick.app.functions.explaining import problems_of
from evertick.base.errors import Misuse
from evertick.gateway_client import NAME, check_url

HOST: Final = re.compile(r"(\*\.)?[a-z0-9.-]+(:\d{1,5})?|\[[0-9a-f:]+\]:\d{1,5}")
FILE_BYTES_MAX: Final = 1 << 20
NO_SETTING: Final = "unknown setting; the guide of gateways has a table of all settings"


def _named(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError(f"{text!r} is not a name: use letters, digits, '.', '_' and '-', at most 100")
    return text


def _host(text: str) -> str:
    if not HOST.fullmatch(text):
        raise ValueError(f"{text!r} is not a host such as api.example.com, *.example.com or api.example.com:8443")
    return text


def _url(text: str) -> str:
    try:
        check_url(text)
    except Misuse as error:
        raise ValueError(str(error)) from None
    return text.rstrip("/")


Named = Annotated[str, AfterValidator(_named)]
Host = Annotated[str, AfterValidator(_host)]
Url = Annotated[str, AfterValidator(_url)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


S = TypeVar("S", bound=_Section)


class PlatformConfig(_Section):
    """The platform at which the gateway registers.

    In the mode `pull` the platform sends its requests to `public_url`; in `dial_out` the gateway polls for them, so
    that none of its ports has to be reachable.
    """

    url: Url
    join_token_file: Path | None = None
    mode: Literal["pull", "dial_out"] = "dial_out"
    public_url: Url | None = None

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        if (self.mode == "pull") != (self.public_url is not None):
            raise ValueError('mode "pull" needs public_url, and mode "dial_out" has none')
        return self


class HttpConfig(_Section):
    """Hosts that `http` actions may reach. `private_hosts` are in this machine's network; they need ports."""

    hosts: tuple[Host, ...] = ()
    private_hosts: tuple[Host, ...] = ()


class CommandConfig(_Section):
    """A command: a program and its arguments. They are not passed to a shell.

    `arguments` lists the allowed values for each `{name}` in `argv`.
    """

    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    env: dict[str, str] = Field(default_factory=dict)
    cwd: Path | None = None
    arguments: dict[Named, tuple[str, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _arguments_are_used(self) -> Self:
        for name in self.arguments:
            if not any(f"{{{name}}}" in each for each in self.argv[1:]):
                raise ValueError(f"the argument {name} is not in argv; write {{{name}}} in one of its items")
        return self


class CronConfig(_Section):
    """A cron of the gateway itself, which is read-only for the platform."""

    schedule: NewSchedule
    action: NewAction


class OpenClawConfig(_Section):
    """An OpenClaw gateway. Its crons are served; this gateway then has none of its own.

    OpenClaw authenticates this gateway by its shared token, or by a device key that OpenClaw's operator approves. The
    key is created if its file does not exist. `messages` allows crons of the types event and agent: an agent follows
    their text, so a caller could make it do anything that the agent can do.
    """

    url: str
    token_file: Path | None = None
    device_key_file: Path | None = None
    messages: bool = False


class GatewayConfig(_Section):
    """The whole file."""

    name: Named
    database: Path = Path("gateway.db")
    listen: str = "127.0.0.1:4500"
    token_file: Path | None = None
    """The token of local callers, such as `evertick gateway check`. It is created if it does not exist."""
    state_file: Path = Path("gateway.state.json")
    """The gateway's registration; by default in the folder of its database. Only its owner may read it."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    minimum_interval_s: Annotated[int, Field(ge=1, le=86_400)] = 10
    retention_days: Annotated[int, Field(ge=1, le=3_650)] = 30
    cache_dir: Path | None = None
    """The folder that the builtin `purge_cache` empties."""
    platform: PlatformConfig | None = None
    http: HttpConfig = HttpConfig()
    commands: dict[Named, CommandConfig] = Field(default_factory=dict)
    crons: dict[Named, CronConfig] = Field(default_factory=dict)
    openclaw: OpenClawConfig | None = None

    @model_validator(mode="before")
    @classmethod
    def _default_state_file(cls, given: Any) -> Any:
        """Derive the state file from the database, so that two gateways in one folder have two registrations."""
        if isinstance(given, dict) and "state_file" not in given and isinstance(given.get("database"), str):
            return given | {"state_file": str(Path(given["database"]).with_suffix(".state.json"))}
        return given

    @field_validator("listen")
    @classmethod
    def _listens(cls, text: str) -> str:
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise ValueError(f"{text!r} is not an address to listen at; write 127.0.0.1:4500")
        return text

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together")
        if self.openclaw is not None and self.crons:
            raise ValueError("with a section [openclaw] the crons are those of OpenClaw; remove [crons]")
        return self

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen at."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)


def read_config(file: Path) -> GatewayConfig:
    """The configuration in a file, with absolute paths. Raises Misuse with the file and the mistake."""
    try:
        with file.open("rb") as opened:
            text = opened.read(FILE_BYTES_MAX + 1)
        if len(text) > FILE_BYTES_MAX:
            raise Misuse(f"{file}: a configuration has at most {FILE_BYTES_MAX:,} bytes")
        config = GatewayConfig.model_validate(tomllib.loads(text.decode()))
    except OSError as error:
        raise Misuse(f"{file}: {error.strerror}") from None
    except ValidationError as error:
        raise Misuse(f"{file}: {problems_of(error, 'the file', unknown=lambda _: NO_SETTING)}") from None
    except ValueError as error:
        raise Misuse(f"{file}: this is not TOML: {error}") from None
    return _absolute(config, file.resolve().parent)


def _absolute(section: S, folder: Path) -> S:
    """A section with its paths resolved relative to `folder`."""
    changed: dict[str, Any] = {}
    for name, value in section:
        if isinstance(value, Path):
            changed[name] = folder / value.expanduser()
        elif isinstance(value, _Section):
            changed[name] = _absolute(value, folder)
        elif name == "commands":
            changed[name] = {each: _absolute(command, folder) for each, command in value.items()}
    return section.model_copy(update=changed)
