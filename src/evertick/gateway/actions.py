"""The actions of crons: a request to a listed host, a builtin, or a command of the configuration.

An action is checked when a cron is added, and again when it runs, because the configuration may have changed. A request
can only use listed programs, arguments and hosts.
"""

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult

from evertick.api.gateways import GatewayAction, cut_output
from evertick.app.functions.options import ERROR_DATA_CHARS_MAX, ApplicationError
from evertick.base.errors import AccessDenied, InvalidCron, UnknownCommand
from evertick.base.outgoing import REDIRECTS, Exchange, Refused, checked, exchange
from evertick.gateway.config import CommandConfig, GatewayConfig

HTTP_S: Final = 30.0
OUTPUT_READ_MAX: Final = 1 << 20
"""The bytes at the end of a command's output that are kept while it runs."""
KILL_S: Final = 2.0
"""The seconds between SIGTERM and SIGKILL for a command that takes too long."""

Builtin = Callable[[], Awaitable[str]]


class ActionFailed(ApplicationError):
    """A run that failed: the reason, and the output so far."""

    def __init__(self, message: str, output: str = "") -> None:
        while len(json.dumps([message, output])) > ERROR_DATA_CHARS_MAX - 100:
            output = output[: len(output) * 3 // 4]
        super().__init__({"message": message[:2_000], "output": output})

    def __str__(self) -> str:
        return str(self.data["message"])


class Actions:
    """The actions of a gateway. `builtins` maps names to functions; each returns a report of its work."""

    def __init__(self, config: GatewayConfig, builtins: Mapping[str, Builtin]) -> None:
        self.config = config
        self.builtins = builtins

    def check(self, action: GatewayAction) -> None:
        """Raise InvalidCron, UnknownCommand or AccessDenied for an action that this gateway cannot run."""
        if action.type == "http":
            self._target(action)
        elif action.type == "builtin":
            self._builtin(action.name or "")
        elif action.type == "command":
            argv_of(self.config.commands, action.name or "", action.arguments or {})
        else:
            raise InvalidCron(f"this gateway has no action {action.type!r}; it has http, builtin and command")

    def named(self, name: str, arguments: Mapping[str, str]) -> GatewayAction:
        """The action that runs a command or builtin. Raises UnknownCommand."""
        if name in self.builtins and name not in self.config.commands and not arguments:
            return GatewayAction(type="builtin", name=name)
        argv_of(self.config.commands, name, arguments)
        return GatewayAction(type="command", name=name, arguments=dict(arguments) or None)

    def warnings(self) -> tuple[str, ...]:
        """Problems of the configuration on this machine."""
        missing = (
            f"the program of the command {name} does not exist: {command.argv[0]}"
            for name, command in self.config.commands.items()
            if shutil.which(command.argv[0]) is None
        )
        return tuple(missing)

    async def perform(self, action: GatewayAction) -> str:
        """Run the action; return its output. Raises ActionFailed."""
        try:
            if action.type == "http":
                return await self._request(action)
            if action.type == "builtin":
                return await self._builtin(action.name or "")()
            return await self._run(action)
        except (InvalidCron, UnknownCommand, AccessDenied) as error:
            raise ActionFailed(f"the configuration does not allow it any more: {error}") from error

    # -- http

    def _target(self, action: GatewayAction) -> tuple[SplitResult, bool]:
        """The parts of the URL, and whether its host is a private one. Raises AccessDenied, InvalidCron."""
        found = self.config.http
        try:
            parts = checked(action.url or "", found.hosts + found.private_hosts, "crons of this gateway")
        except Refused as error:
            kind = AccessDenied if error.code == "not_allowed" else InvalidCron
            raise kind(f"url: {error}") from None
        if action.method != "POST" and action.body is not None:
            raise InvalidCron("body: only a request with the method POST has a body")
        try:
            checked(action.url or "", found.private_hosts, "")
        except Refused:
            return parts, False
        return parts, True

    async def _request(self, action: GatewayAction) -> str:
        parts, is_private = self._target(action)

        def ask() -> Exchange:
            body = None if action.body is None else action.body.encode()
            headers = {} if body is None else {"content-type": _media_of(action.body or "")}
            deadline = time.monotonic() + HTTP_S
            return exchange(parts, action.method or "GET", headers, body, deadline, may_be_private=is_private)

        try:
            status, headers, body = await asyncio.to_thread(ask)
        except Refused as error:
            cure = "; private_hosts of gateway.toml allows it, with its port" if error.code == "not_allowed" else ""
            raise ActionFailed(f"{error}{cure}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ActionFailed(f"{parts.netloc} could not be reached: {type(error).__name__}: {error}") from error
        if status in REDIRECTS:
            where = headers.get("location", "nowhere")[:200]
            raise ActionFailed(f"status {status}: it redirects to {where}, which is not followed", cut_output(body))
        if not 200 <= status < 300:
            raise ActionFailed(f"status {status}", cut_output(body))
        return cut_output(body)

    # -- builtins

    def _builtin(self, name: str) -> Builtin:
        if name not in self.builtins:
            raise UnknownCommand(f"there is no builtin {name!r}; the builtins are {_listed(self.builtins)}")
        return self.builtins[name]

    # -- commands

    async def _run(self, action: GatewayAction) -> str:
        name = action.name or ""
        argv, command = argv_of(self.config.commands, name, action.arguments or {}), self.config.commands[name]
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", **command.env}
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=command.cwd or self.config.state_file.parent,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ActionFailed(f"the command {name} cannot be started: {error}") from error
        return await _end_of(process, name, command)


def argv_of(commands: Mapping[str, CommandConfig], name: str, arguments: Mapping[str, str]) -> list[str]:
    """The program and the arguments of a command of the configuration. Raises UnknownCommand."""
    command = commands.get(name)
    if command is None:
        raise UnknownCommand(f"the configuration lists no command {name!r}; it lists {_listed(commands)}")
    if set(arguments) != set(command.arguments):
        takes = _listed(command.arguments) if command.arguments else "no arguments"
        raise UnknownCommand(f"the command {name} takes {takes}, and was given {_listed(arguments)}")
    for each, value in arguments.items():
        if value not in command.arguments[each]:
            raise UnknownCommand(f"{each} of the command {name} is one of {_listed(command.arguments[each])}")
    found = list(command.argv)
    for each, value in arguments.items():
        found[1:] = [part.replace(f"{{{each}}}", value) for part in found[1:]]
    return found


async def _end_of(process: asyncio.subprocess.Process, name: str, command: CommandConfig) -> str:
    """Wait for the end of a command; return its output. Raises ActionFailed."""
    assert process.stdout is not None  # noqa: S101  # it is a pipe
    output = bytearray()
    try:
        async with asyncio.timeout(command.timeout_s):
            while piece := await process.stdout.read(65_536):
                output += piece
                del output[:-OUTPUT_READ_MAX]
            code = await process.wait()
    except TimeoutError:
        await _end(process)
        raise ActionFailed(
            f"it took longer than {command.timeout_s:g} s, and was ended", cut_output(bytes(output))
        ) from None
    except asyncio.CancelledError:  # the gateway ends
        await _end(process)
        raise
    if code != 0:
        raise ActionFailed(f"the command {name} ended with code {code}", cut_output(bytes(output)))
    return cut_output(bytes(output))


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a command and its child processes, which are one process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), KILL_S)


def purge(folder: Path) -> str:
    """Remove everything in a folder; return a report. Links are removed, not followed."""
    files = size = 0
    if folder.is_dir():
        for each in folder.iterdir():
            found = [each] if each.is_symlink() or each.is_file() else [*each.rglob("*")]
            sizes = [one.lstat().st_size for one in found if one.is_symlink() or one.is_file()]
            files, size = files + len(sizes), size + sum(sizes)
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()
    return f"removed {files:,} files, {size:,} bytes"


def _media_of(body: str) -> str:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return "text/plain; charset=utf-8"
    return "application/json"


def _listed(names: Mapping[str, object] | tuple[str, ...]) -> str:
    return ", ".join(sorted(names)[:20]) or "none"
