"""Plans: the limits of a tenant's scripts. The app has one plan for all tenants; a tenant can have its own limits."""

import contextlib
import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from evertick.base.instants import MINUTE_MS
from evertick.base.options import Rule, check_names, check_options, optional, whole
from evertick.sandbox.protocol import Limits

KIB: Final = 1 << 10
MIB: Final = 1 << 20
OF_A_RUN: Final = Limits()
"""The sandbox's default limits."""
HOST_CHARS_MAX: Final = 253
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
HOST: Final = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*", re.ASCII | re.IGNORECASE)


def _are_hosts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_host, value))


def _is_host(value: Any) -> bool:
    """Whether this is a valid pattern for a host: a name, `*.` and a name, or an IPv4 address."""
    if not isinstance(value, str) or len(value) > HOST_CHARS_MAX or not HOST.fullmatch(value):
        return False
    last = value.rpartition(".")[2]
    if not last.isdecimal():
        return True
    with contextlib.suppress(ValueError):
        return bool(ipaddress.IPv4Address(value))
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptPlan:
    """The limits of a tenant's scripts: `app.scripts.plan(ScriptPlan(cpu_ms=500, runs_per_hour=1_000))`.

    For each run:

    - `cpu_ms` (1,000), `wall_ms` (10,000, host functions included), `memory_bytes` (64 MiB).
    - `result_bytes` (256 KiB), `log_bytes` (256 KiB), `argument_bytes` (1 MiB: of a host call's arguments, and of its
      result), `host_calls` (1,000).
    - `reads` (10,000): documents read, including those that a filter drops.
    - `writes` (1,000): committed with the run: documents, values, jobs, notifications, calls of mutations.

    For a tenant:

    - `source_bytes` (256 KiB) of a script, `scripts` (100), `schedules` that run scripts (100).
    - `keys` (10,000) that `ctx.kv` stores.
    - `interval_ms` (60,000): the shortest time between two times of such a schedule.
    - `runs_per_hour`, `cpu_s_per_hour`: None, which means no limit.
    - `hosts`: the hosts that `ctx.fetch` can reach, such as `api.example.com` or `*.example.com`; without any there is
      no `ctx.fetch`.
    """

    cpu_ms: int = OF_A_RUN.cpu_ms
    wall_ms: int = OF_A_RUN.wall_ms
    memory_bytes: int = OF_A_RUN.memory_bytes
    result_bytes: int = OF_A_RUN.result_bytes
    log_bytes: int = OF_A_RUN.log_bytes
    argument_bytes: int = OF_A_RUN.argument_bytes
    host_calls: int = OF_A_RUN.host_calls
    reads: int = 10_000
    writes: int = 1_000
    source_bytes: int = OF_A_RUN.source_bytes
    scripts: int = 100
    schedules: int = 100
    keys: int = 10_000
    interval_ms: int = MINUTE_MS
    runs_per_hour: int | None = None
    cpu_s_per_hour: int | None = None
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises Misuse for an invalid value."""
        check_options(RULES, asdict(self), "ScriptPlan: ")
        object.__setattr__(self, "hosts", tuple(each.lower() for each in self.hosts))

    @property
    def limits(self) -> Limits:
        """The limits that the sandbox enforces."""
        return Limits(**{name: getattr(self, name) for name in Limits._fields})

    def changed(self, limits: str | None) -> "ScriptPlan":
        """This plan, changed by the tenant's own limits as stored; the plan itself if `limits` is None."""
        if limits is None:
            return self
        return replace(self, **{name: value for name, value in json.loads(limits).items() if name in RULES})


_COUNT: Final = whole(0, 1_000_000_000)
RULES: Final[Mapping[str, Rule]] = {
    "cpu_ms": whole(1, 60_000),
    "wall_ms": whole(10, 600_000),
    "memory_bytes": whole(8 * MIB, 2_048 * MIB),
    "result_bytes": whole(0, MIB),
    "log_bytes": whole(0, 16 * MIB),
    "argument_bytes": whole(KIB, 16 * MIB),
    "host_calls": whole(0, 100_000),
    "reads": whole(0, 30_000),
    "writes": whole(0, 10_000),
    "source_bytes": whole(1, 4 * MIB),
    "scripts": _COUNT,
    "schedules": whole(0, 10_000),
    "keys": whole(0, 1_000_000),
    "interval_ms": _COUNT,
    "runs_per_hour": optional(_COUNT),
    "cpu_s_per_hour": optional(_COUNT),
    "hosts": Rule(
        "a list of host names, such as api.example.com or *.example.com for its subdomains, without scheme, port and "
        "path; ctx.fetch reaches ports 443 and 80 of public addresses",
        _are_hosts,
    ),
}


def changes(kept: str | None, limits: Mapping[str, Any]) -> str:
    """The limits of a tenant after a change; None resets a limit to the app's. Raises Misuse."""
    check_names({each.name: None for each in fields(ScriptPlan)}, limits, "a plan of scripts")
    check_options(RULES, {name: value for name, value in limits.items() if value is not None}, "a plan of scripts: ")
    merged = {**json.loads(kept or "{}"), **limits}
    return json.dumps({name: value for name, value in merged.items() if value is not None})
