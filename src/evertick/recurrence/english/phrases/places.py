"""Places in words: time zones (`New York time`) and the countries of holidays (`holidays in Germany`)."""

from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NoReturn

from evertick.recurrence.english.phrases.reader import Reader
from evertick.recurrence.spec.sources import shown
from evertick.recurrence.zones.names import NAME_MAX, zone_names

_REGIONS: Final = (
    "Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific",
)  # fmt: skip
_TWICE: Final = frozenset({"Asia/Istanbul", "Europe/Nicosia"})
"""Zones whose city name also exists in another region; the city alone means the other zone."""
_WORDS_MAX: Final = 9
_NO_PLACES: Final = frozenset({"at", "on", "from", "until", "except", "and", "every"})
"""Words that begin a part of a sentence other than a zone."""

_US_STATES: Final = """
AL=Alabama AK=Alaska AZ=Arizona AR=Arkansas CA=California CO=Colorado CT=Connecticut DE=Delaware FL=Florida
HI=Hawaii ID=Idaho IL=Illinois IN=Indiana IA=Iowa KS=Kansas KY=Kentucky LA=Louisiana ME=Maine MD=Maryland
MA=Massachusetts MI=Michigan MN=Minnesota MS=Mississippi MO=Missouri MT=Montana NE=Nebraska NV=Nevada
NH=New_Hampshire NJ=New_Jersey NM=New_Mexico NY=New_York NC=North_Carolina ND=North_Dakota OH=Ohio OK=Oklahoma
OR=Oregon PA=Pennsylvania RI=Rhode_Island SC=South_Carolina SD=South_Dakota TN=Tennessee TX=Texas UT=Utah
VT=Vermont VA=Virginia WA=Washington WV=West_Virginia WI=Wisconsin WY=Wyoming
"""
_GERMAN_STATES: Final = """
BB=Brandenburg BE=Berlin BW=Baden-Württemberg BY=Bavaria HB=Bremen HE=Hesse HH=Hamburg
MV=Mecklenburg-Western_Pomerania NI=Lower_Saxony NW=North_Rhine-Westphalia RP=Rhineland-Palatinate
SH=Schleswig-Holstein SL=Saarland SN=Saxony ST=Saxony-Anhalt TH=Thuringia
"""
_UK_NATIONS: Final = "ENG=England NIR=Northern_Ireland SCT=Scotland WLS=Wales"
_PARTS: Final = {"US": _US_STATES, "DE": _GERMAN_STATES, "GB": _UK_NATIONS}
"""The parts of countries with names; the parts of other countries are written as codes, `CA-QC`."""
_COUNTRIES: Final = """
AE=the_United_Arab_Emirates AL=Albania AR=Argentina AM=Armenia AU=Australia AT=Austria AZ=Azerbaijan
BA=Bosnia_and_Herzegovina
BD=Bangladesh BE=Belgium BG=Bulgaria BO=Bolivia BR=Brazil BY=Belarus CA=Canada CH=Switzerland CL=Chile CN=China
CO=Colombia CR=Costa_Rica CU=Cuba CY=Cyprus CZ=Czechia DE=Germany DK=Denmark DO=the_Dominican_Republic DZ=Algeria
EC=Ecuador EE=Estonia EG=Egypt ES=Spain ET=Ethiopia FI=Finland FR=France GB=the_United_Kingdom GH=Ghana GR=Greece
GT=Guatemala HK=Hong_Kong HN=Honduras HR=Croatia HU=Hungary ID=Indonesia IE=Ireland IL=Israel IN=India IR=Iran
IS=Iceland IT=Italy JM=Jamaica JO=Jordan JP=Japan KE=Kenya KR=South_Korea KW=Kuwait KZ=Kazakhstan LB=Lebanon
LI=Liechtenstein LK=Sri_Lanka LT=Lithuania LU=Luxembourg LV=Latvia MA=Morocco MC=Monaco MD=Moldova ME=Montenegro
MK=North_Macedonia MT=Malta MX=Mexico MY=Malaysia NG=Nigeria NI=Nicaragua NL=the_Netherlands NO=Norway NP=Nepal
NZ=New_Zealand OM=Oman PA=Panama PE=Peru PH=the_Philippines PK=Pakistan PL=Poland PR=Puerto_Rico PT=Portugal
PY=Paraguay QA=Qatar RO=Romania RS=Serbia RU=Russia SA=Saudi_Arabia SE=Sweden SG=Singapore SI=Slovenia SK=Slovakia
SM=San_Marino SV=El_Salvador TH=Thailand TN=Tunisia TR=Turkey TW=Taiwan TZ=Tanzania UA=Ukraine UG=Uganda
US=the_United_States UY=Uruguay UZ=Uzbekistan VA=the_Vatican VE=Venezuela VN=Vietnam ZA=South_Africa ZW=Zimbabwe
"""
_SYNONYMS: Final = {
    "us": "US", "the us": "US", "usa": "US", "the usa": "US", "uk": "GB", "the uk": "GB", "great britain": "GB",
    "czech republic": "CZ", "the czech republic": "CZ",
}  # fmt: skip
_IN_GERMAN: Final = {
    "baden-wuerttemberg": "BW", "bayern": "BY", "hessen": "HE", "mecklenburg-vorpommern": "MV", "niedersachsen": "NI",
    "nordrhein-westfalen": "NW", "rheinland-pfalz": "RP", "sachsen": "SN", "sachsen-anhalt": "ST", "thüringen": "TH",
    "thueringen": "TH",
}  # fmt: skip


# --- zones --------------------------------------------------------------------------------------------------


def say_zone(zone: str) -> str:
    """`New York time`; the full name where the city alone is ambiguous."""
    region, slash, city = zone.partition("/")
    short = slash and region in _REGIONS and "/" not in city and zone not in _TWICE
    return f"{city.replace('_', ' ') if short else zone} time"


def read_zone(reader: Reader) -> str | None:
    """`New York time`, `America/New_York time`, `America/New_York`: the zone's name. None if there is none."""
    place = reader.at
    reader.take("in")
    by_label = _zones_by_label()
    for length in range(min(_WORDS_MAX, reader.left), 0, -1):
        words = reader.words(length)
        timed = words[-1] == "time"
        label = " ".join(words[:-1] if timed else words)
        zone = by_label.get(label)
        if zone is not None and (timed or "/" in zone):
            reader.advance(length)
            return zone
    reader.at = place
    return None


def refuse_zone(reader: Reader) -> None:
    """Raise InvalidSpec if the rest has the form of a zone, `..., Gotham time`, but is not a known one."""
    place = reader.at
    rest = reader.words(reader.left) if reader.take(",") else []
    if 1 < len(rest) <= _WORDS_MAX and rest[-1] == "time" and rest[0] not in _NO_PLACES:
        written = []
        while reader.left:
            written.append(reader.written)
            reader.advance()
        name = " ".join(written[:-1])
        near = [
            say_zone(_zones_by_label()[label])
            for label in get_close_matches(name.lower(), zone_labels(), n=2, cutoff=0.72)
        ]
        hint = f"did you mean {' or '.join(repr(each) for each in near)}? " if near else ""
        reader.fail(f"no time zone is named {name!r}; {hint}write 'New York time' or 'America/New_York'")
    reader.at = place


@lru_cache(maxsize=1)
def _zones_by_label() -> dict[str, str]:
    """Every zone by its name and by its label, both in lower case."""
    names = zone_names()
    labels = {say_zone(name).removesuffix(" time").lower(): name for name in names}
    return labels | {name.lower(): name for name in names}


def zone_labels() -> frozenset[str]:
    """Names and labels of zones in lower case, for suggestions."""
    return frozenset(_zones_by_label())


# --- countries ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _named(table: str) -> dict[str, str]:
    return {code: name.replace("_", " ") for code, _, name in (entry.partition("=") for entry in table.split())}


def say_country(country: str, subdivision: str | None) -> str:
    """`Germany`, `New York`, `US-DC`: the place of holidays."""
    if subdivision is None:
        return _named(_COUNTRIES).get(country, country)
    part = _named(_PARTS[country]).get(subdivision) if country in _PARTS else None
    return part or f"{country}-{subdivision}"


def read_country(reader: Reader) -> tuple[str, str | None] | None:
    """The codes of a country, or of a country and a part of it. None for an unknown place."""
    known = _countries_by_name()
    for length in range(min(_WORDS_MAX, reader.left), 0, -1):
        place = known.get(" ".join(reader.words(length)))
        if place is not None:
            reader.advance(length)
            return place
    country, dash, part = reader.written.partition("-")
    if country.isascii() and country.isalpha() and country.isupper() and 2 <= len(country) <= 4:
        if dash and not part:
            return None
        reader.advance()
        return country, part or None
    return None


@lru_cache(maxsize=1)
def _countries_by_name() -> dict[str, tuple[str, str | None]]:
    """Countries and their parts by name in lower case. Georgia is omitted: a state and a country have this name."""
    known: dict[str, tuple[str, str | None]] = {}
    for code, name in _named(_COUNTRIES).items():
        known[name.lower()] = known[name.lower().removeprefix("the ")] = (code, None)
    known |= {name: (code, None) for name, code in _SYNONYMS.items()}
    known |= {name: ("DE", code) for name, code in _IN_GERMAN.items()}
    return known | {
        name.lower(): (country, code) for country, parts in _PARTS.items() for code, name in _named(parts).items()
    }


def refuse_country(reader: Reader) -> NoReturn:
    """Raise InvalidSpec for a place without known holidays, with similar names."""
    written = []
    while reader.left and reader.word != ",":
        written.append(reader.written)
        reader.advance()
    name, known = " ".join(written), _countries_by_name()
    found: list[str] = []
    for each in (name, name.partition(" and ")[0]):  # another exclusion may follow
        found += get_close_matches(each.lower(), known, n=2, cutoff=0.72)
    near = dict.fromkeys(say_country(*known[each]) for each in found)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    reader.fail(
        f"{shown(name, NAME_MAX)} is not a place with known holidays; {hint}write a country such as "
        "'Germany', a state of the US or of Germany, 'England' and the like, or the codes of a country and of a part "
        "of it, such as 'CA-QC'"
    )
