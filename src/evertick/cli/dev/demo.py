"""`evertick dev --demo`: a small shop with a week behind it, on a simulated clock that goes on from there."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

import evertick.demo
from evertick.cli.core.databases import SIMULATED
from evertick.cli.dev.clock import emptied

if TYPE_CHECKING:
    from evertick.app.app import App

FILE: Final = str(Path(evertick.demo.__file__).with_name("shop.py"))
"""The app of the demonstration."""


def demo_database(app: "App", folder: Path, *, speed: float | None, first: bool) -> str:
    """The address of the demonstration's database in `folder`. The first start creates it, which takes some seconds.

    Raises DatabaseLocked if a demonstration runs there.
    """
    from evertick.cli.dev.lines import say
    from evertick.demo.week import SPEED, simulate

    file = folder / f"{app.name}{SIMULATED}"
    url = f"sqlite:///{file}"
    if not first:
        return url
    file.parent.mkdir(parents=True, exist_ok=True)
    emptied(url, file)
    say(" ", "simulating a week of a small shop; this takes some seconds")
    logging.disable(logging.CRITICAL)
    try:
        simulate(app, file, speed=SPEED if speed is None else speed, report=lambda day: say(" ", day))
    finally:
        logging.disable(logging.NOTSET)
    return url
