"""Loads zones by IANA name from the `tzdata` package or the system, or from bytes in a spec.

The package comes first, so that machines with the same packages agree on all times. The directories of `PYTHONTZPATH`
or of the system are used only for zones that the package does not have. The machine's own zone is never used.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.recurrence.spec.sources import shown
from evertick.recurrence.zones.zones import DATA_MAX, UTC, Zone

NAME_MAX: Final = 64

_NAME: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
_OFFSET: Final = re.compile(r"(?:UTC|GMT|Z)?([+-])([01]?[0-9])(?::?[0-5][0-9])?", re.IGNORECASE)
_NO_ZONES: Final = {"localtime", "posixrules", "Factory", "leapseconds"}
_ABBREVIATIONS: Final = {"EST": "America/Panama", "MST": "America/Phoenix", "HST": "Pacific/Honolulu"}

UTC_NAMES: Final = frozenset({
    "UTC", "Etc/UTC", "UCT", "Etc/UCT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal",
    "GMT", "Etc/GMT", "GMT0", "Etc/GMT0", "GMT+0", "Etc/GMT+0", "GMT-0", "Etc/GMT-0", "Greenwich", "Etc/Greenwich",
})  # fmt: skip


def is_utc(zone: str | None) -> bool:
    """Whether a zone's name is a name of UTC; None counts as UTC."""
    return zone is None or zone in UTC_NAMES


@lru_cache(maxsize=1024)
def zone_named(name: str, *, abbreviations: bool = False) -> Zone:
    """The zone of an IANA name, from the `tzdata` package or the system.

    `abbreviations` allows EST, MST and HST, which are zones without summer time in the IANA database.
    Raises InvalidSpec for anything that is not the exact name of a zone, with similar names.
    """
    problem = _name_problem(name, abbreviations)
    if problem is None:
        data = _find(name)
        if data is not None:
            return Zone(name, data)
        problem = "no such time zone"
    if isinstance(name, str) and (offset := _OFFSET.fullmatch(name)):
        sign = "+" if offset[1] == "-" else "-"
        raise InvalidSpec(
            f"time zone {shown(name)}: an offset is not the name of a time zone; for whole hours write "
            f"Etc/GMT{sign}{int(offset[2])} (with the opposite sign), or a place such as Europe/Berlin"
        )
    if problem_of_windows := _windows(name):
        raise InvalidSpec(f"time zone {shown(name)}: {problem_of_windows}")
    near = _nearest(name)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; zones have names such as Europe/Berlin or UTC"
    raise InvalidSpec(f"time zone {shown(name)}: {problem}{hint}")


def zone_from_data(data: bytes, name: str | None = None) -> Zone:
    """A zone from TZif bytes. Raises InvalidSpec if they are invalid."""
    if len(data) > DATA_MAX:
        raise InvalidSpec(f"time zone data of {len(data)} bytes; the limit is {DATA_MAX}")
    return _zone_of_data(bytes(data), name or "embedded")


@lru_cache(maxsize=64)
def _zone_of_data(data: bytes, name: str) -> Zone:
    return Zone(name, data)


def zone_names() -> tuple[str, ...]:
    """Every name in the `tzdata` package, in alphabetical order; empty without the package."""
    return tuple(sorted(_packaged() - _NO_ZONES - _ABBREVIATIONS.keys()))


def zone_data_source() -> str:
    """The preferred source of zone data, for messages: `2026f, from the package tzdata`."""
    if _packaged():
        import tzdata

        return f"{tzdata.IANA_VERSION}, from the package tzdata"
    import zoneinfo

    return f"from {', '.join(zoneinfo.TZPATH) or 'nowhere'}; the package tzdata is not installed"


@lru_cache(maxsize=1)
def _packaged() -> frozenset[str]:
    """The names in the `tzdata` package, spelled exactly; none without the package."""
    from importlib import resources  # slow to import, as is zoneinfo below; UTC needs neither

    try:
        return frozenset(resources.files("tzdata").joinpath("zones").read_text("ascii").split())
    except (ModuleNotFoundError, OSError):
        return frozenset()


def _name_problem(name: str, abbreviations: bool) -> str | None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > NAME_MAX:
        return "not the name of a time zone"
    if name in _ABBREVIATIONS and not abbreviations:
        return f"abbreviations are ambiguous, use the place ({_ABBREVIATIONS[name]})"
    if name in _NO_ZONES or name.startswith(("right/", "posix/")):
        return "a data file, not a time zone"
    return None


def _find(name: str) -> bytes | None:
    if name == "UTC":
        return UTC
    parts = name.split("/")
    if name in _packaged():
        from importlib import resources

        return resources.files("tzdata").joinpath("zoneinfo", *parts).read_bytes()
    import zoneinfo

    return next((data for root in zoneinfo.TZPATH if (data := _read_exact(Path(root), parts)) is not None), None)


def _read_exact(directory: Path, parts: list[str]) -> bytes | None:
    """The TZif bytes below `directory`, or None; case-sensitive even on case-insensitive disks."""
    path = directory.joinpath(*parts)
    try:
        if not path.is_file():
            return None
        for part in parts:
            if part not in {entry.name for entry in directory.iterdir()}:
                return None
            directory = directory / part
        data = path.read_bytes()
    except OSError:
        return None
    return data if data[:4] == b"TZif" and len(data) <= DATA_MAX else None


def _windows(name: object) -> str | None:
    """A hint for the Windows name of a zone, by CLDR's table; None for another text."""
    from tzlocal.windows_tz import win_tz  # imported here because it is rarely needed

    zone = win_tz.get(name.strip()) if isinstance(name, str) else None
    return None if zone is None else f"that is its name on Windows; write {zone}"


def _nearest(name: object) -> list[str]:
    if not isinstance(name, str) or not name or len(name) > NAME_MAX:
        return []
    names = zone_names()
    wanted = name.strip().replace(" ", "_").lower()
    same = [known for known in names if known.lower() == wanted]
    same = same or [known for known in names if known.lower().rsplit("/", 1)[-1] == wanted]
    if same:
        return same[:2]
    import difflib

    return difflib.get_close_matches(name, names, n=2, cutoff=0.75)
