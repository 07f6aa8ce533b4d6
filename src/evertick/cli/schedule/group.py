"""`evertick schedule ...`: what runs when, and what became of it. A new command is one line in this table."""

from typing import Final

from evertick.cli.core.lazy import Lazy, lazy_group

COMMANDS: Final = {
    "create": Lazy("evertick.cli.schedule.create:create", "Make a schedule: when, what, and its policies"),
    "list": Lazy("evertick.cli.schedule.list:list_schedules", "List schedules: --query 'state:paused next<1h'"),
    "describe": Lazy("evertick.cli.schedule.list:describe", "Show everything about a schedule"),
    "get": Lazy("evertick.cli.schedule.list:describe", "The same"),
    "update": Lazy("evertick.cli.schedule.update:update", "Change what is given, keep the rest"),
    "edit": Lazy("evertick.cli.schedule.files.edit:edit", "Change it in an editor, as export writes it"),
    "toggle": Lazy("evertick.cli.schedule.pause:toggle", "Pause or unpause, with a reason"),
    "pause": Lazy("evertick.cli.schedule.pause:pause", "Pause a schedule, or all that a query chooses"),
    "resume": Lazy("evertick.cli.schedule.pause:resume", "Let a schedule go on, or all that a query chooses"),
    "trigger": Lazy("evertick.cli.schedule.trigger:trigger", "Start one run now"),
    "backfill": Lazy("evertick.cli.backfill.start:backfill", "Run now what it names in a span of time"),
    "delete": Lazy("evertick.cli.schedule.list:delete", "Remove a schedule; its runs go on"),
    "export": Lazy("evertick.cli.schedule.files.edit:export", "Write schedules as a file of YAML or JSON"),
    "apply": Lazy("evertick.cli.schedule.files.apply:apply", "Make schedules as files say, after showing what differs"),
    "preview": Lazy("evertick.cli.schedule.preview:preview", "Show the next times of a rule or of a schedule"),
    "explain": Lazy("evertick.cli.schedule.ledger:explain", "Say why it ran at a time, or why not"),
    "audit": Lazy("evertick.cli.schedule.ledger:audit", "Check that everything that should run, ran"),
    "occurrences": Lazy("evertick.cli.schedule.ledger:occurrences", "List what became of each time"),
    "history": Lazy("evertick.cli.schedule.ledger:history", "List what was done to a schedule, and by whom"),
}

schedule = lazy_group("schedule", "Schedules: what runs when, under which policies, and what became of it.", COMMANDS)
