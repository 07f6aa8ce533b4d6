"""Time zones: names that are refused, names that are suggested, data that is carried along."""

import struct
import sys
import zoneinfo
from collections.abc import Iterator
from pathlib import Path

import pytest
import tzdata

from evertick.base.errors import InvalidSpec
from evertick.recurrence.zones import names
from evertick.recurrence.zones.names import zone_from_data, zone_named
from tests.recurrence import brute
from tests.recurrence.asking import at

VANCOUVER = brute.zone_data("America/Vancouver")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("America/New York", "America/New_York"),
        ("america/new_york", "America/New_York"),
        ("Berlin", "Europe/Berlin"),
        ("Europe/Belin", "Europe/Berlin"),
        ("EST", "America/Panama"),
        ("posix/Europe/Berlin", "not a time zone"),
        ("", "Europe/Berlin or UTC"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(name: str, hint: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        zone_named(name)
    assert hint in str(refused.value)


def test_the_far_future_follows_the_footer() -> None:
    for name in ("America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Europe/Dublin"):
        zone, ours = brute.zone(name), zone_named(name)
        for year in (2101, 2399, 2500, 2999, 3777):
            for month in range(1, 13):
                instant = at(f"{year}-{month:02d}-15T12:00:00Z")
                assert ours.offset_at(instant) == brute.offset_at(zone, instant), (name, year, month)


def test_data_of_a_zone_is_as_good_as_its_name_and_has_a_digest() -> None:
    zone_named.cache_clear()  # a table grows when it is asked about the far future
    named = zone_named("Europe/Berlin")
    carried = zone_from_data(named.data)
    assert carried.table == named.table
    assert carried.digest == named.digest != zone_named("Europe/Paris").digest


@pytest.fixture
def package_and_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Path]]:
    """Two empty sources of zone data that stand in for the package and for the system."""
    package, system = tmp_path / "tzdata", tmp_path / "system"
    for root in (package / "zoneinfo" / "America", system / "America"):
        root.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, tzdata.__name__)
    monkeypatch.setattr(zoneinfo, "TZPATH", (str(system),))
    _forget()
    yield package, system
    _forget()


def _forget() -> None:
    names._packaged.cache_clear()
    zone_named.cache_clear()


def test_the_package_comes_first_and_the_system_has_what_it_lacks(package_and_system: tuple[Path, Path]) -> None:
    package, system = package_and_system
    (package / "zones").write_text("America/Vancouver\n", "ascii")
    (package / "zoneinfo" / "America" / "Vancouver").write_bytes(tzif(b"AAA1", [], [-3600]))
    for name in ("Vancouver", "Phoenix"):
        (system / "America" / name).write_bytes(tzif(b"BBB2", [], [-7200]))
    assert zone_named("America/Vancouver").offset_at(0) == -3600
    assert zone_named("America/Phoenix").offset_at(0) == -7200
    with pytest.raises(InvalidSpec, match="no such time zone"):
        zone_named("Europe/Berlin")


def test_without_the_package_the_system_is_read(package_and_system: tuple[Path, Path]) -> None:
    _, system = package_and_system
    (system / "America" / "Phoenix").write_bytes(tzif(b"BBB2", [], [-7200]))
    assert zone_named("America/Phoenix").offset_at(0) == -7200
    assert names.zone_names() == ()
    assert "the package tzdata is not installed" in names.zone_data_source()


def test_a_changed_zone_changes_the_digest_and_the_times(package_and_system: tuple[Path, Path]) -> None:
    """A release of the zone database moves future times; the digest is how a scheduler notices."""
    before = zone_from_data(VANCOUVER, "America/Vancouver")
    package, _ = package_and_system
    (package / "zones").write_text("America/Vancouver\n", "ascii")
    (package / "zoneinfo" / "America" / "Vancouver").write_bytes(tzif(b"MST7", [], [-25_200]))
    after = zone_named("America/Vancouver")
    assert after.digest != before.digest
    assert after.offset_at(at("2020-01-01T00:00:00Z")) != before.offset_at(at("2020-01-01T00:00:00Z"))


def tzif(footer: bytes, transitions: list[int], kinds: list[int]) -> bytes:
    body = struct.pack(">4sc15x6I", b"TZif", b"2", 0, 0, 0, 0, 1, 4) + struct.pack(">iBB", 0, 0, 0) + b"LMT\0"
    body += struct.pack(">4sc15x6I", b"TZif", b"2", 0, 0, 0, len(transitions), len(kinds), 4)
    body += struct.pack(f">{len(transitions)}q", *transitions) + bytes(range(len(transitions)))
    body += b"".join(struct.pack(">iBB", kind, 0, 0) for kind in kinds) + b"LMT\0"
    return body + b"\n" + footer + b"\n"


@pytest.mark.parametrize("footer", [b"AAA0BBB,J60/2,J300", b"<+03>-3<+04>,M3.2.0/-5,M11.1.0/26"])
def test_every_form_of_footer_is_read(footer: bytes, tmp_path: Path) -> None:
    data = tzif(footer, [], [10_800 if footer.startswith(b"<") else 0])
    path = tmp_path / "zone"
    path.write_bytes(data)
    ours = zone_from_data(data)
    with path.open("rb") as file:
        theirs = zoneinfo.ZoneInfo.from_file(file)
    for instant in range(at("2030-01-01T00:00:00Z"), at("2033-01-01T00:00:00Z"), 7200):
        assert ours.offset_at(instant) == brute.offset_at(theirs, instant)


def test_a_footers_bare_day_counts_from_zero_and_counts_leap_days() -> None:
    """RFC 8536 leaves it to POSIX; the standard library is off by one here, and no real zone uses it."""
    ours = zone_from_data(tzif(b"AAA0BBB,59/2,299/2", [], [0]))
    assert ours.offset_at(at("2030-03-01T01:59:59Z")) == 0
    assert ours.offset_at(at("2030-03-01T02:00:00Z")) == 3600
    assert ours.offset_at(at("2032-02-29T02:00:00Z")) == 3600


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"TZif",
        b"nonsense" * 20,
        tzif(b"???", [], [0]),
        tzif(b"AAA5", [0, 5], [0, 3600]),
        tzif(b"", [5, 5], [0, 1]),
    ],
)
def test_broken_data_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidSpec):
        zone_from_data(data)
