"""`evertick schedule ...`: rules of times. A new command is one line in this table."""

from typing import Final

from evertick.cli.lazy import Lazy, lazy_group

COMMANDS: Final = {
    "preview": Lazy("evertick.cli.preview:preview", "Show the next times of a rule; needs no database"),
}

schedule = lazy_group("schedule", "Rules of times, and what follows from them.", COMMANDS)
