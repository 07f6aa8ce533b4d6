"""Public holidays, resolved to days with the optional `holidays` package.

Lists of holidays change between releases of that package, and some future dates in them are estimates. So
they are looked up once, and the days are stored in the spec with the version of the package. A schedule never changes
because a package was upgraded.
"""

from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import Final

from evertick.base.errors import InvalidSpec
from evertick.base.time_limit import current_guard
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.civil import day_number
from evertick.recurrence.spec.sources import bounded, shown

YEARS_DEFAULT: Final = range(2020, 2051)
"""The years that are looked up by default."""
YEARS_MAX: Final = 200


def resolve(
    country: str,
    subdivision: str | None = None,
    *,
    categories: tuple[str, ...] = (),
    years: range = YEARS_DEFAULT,
) -> exclude.Holidays:
    """The public holidays of a country (ISO 3166 code, as in "US") and, if given, of a subdivision ("NY").

    Raises InvalidSpec for an unknown country, subdivision or category, or when the package is not installed.
    """
    bounded(country, "a country", 32)
    if subdivision is not None:
        bounded(subdivision, "a subdivision", 64)
    if not 1 <= len(years) <= YEARS_MAX:
        raise InvalidSpec(f"holidays of {len(years)} years; between 1 and {YEARS_MAX} can be looked up")
    try:
        current_guard().uncounted(_load, country)
        import holidays
    except ImportError:
        raise InvalidSpec(
            'named holidays need the "holidays" package: pip install "evertick[holidays]"; '
            'or list the days yourself, as {"dates": ["2027-01-01"]}'
        ) from None
    try:
        found = holidays.country_holidays(
            country, subdiv=subdivision, years=years, categories=categories or None, expand=False
        )
    except (NotImplementedError, ValueError) as problem:
        place = shown(country) if subdivision is None else f"{shown(country)}, {shown(subdivision)}"
        raise InvalidSpec(f"no holidays are known for {place}: {str(problem)[:200]}") from None
    days = tuple(
        exclude.Holiday(day=day_number(date.year, date.month, date.day), name=str(name))
        for date, name in sorted(found.items())
    )
    return exclude.Holidays(
        country=country,
        subdivision=subdivision,
        categories=categories,
        resolved=days,
        source=f"holidays {version('holidays')}",
    )


@cache
def _load(country: str) -> None:
    """Load the package's code for a country, once in a process. It can take longer than a function's time limit.

    Raises ImportError.
    """
    import holidays

    with suppress(NotImplementedError, ValueError):  # `resolve` refuses an unknown country
        holidays.country_holidays(country)
