"""`evertick script ...`: scripts of an app's customers. A new command is one line in this table."""

from typing import Final

from evertick.cli.core.lazy import Lazy, lazy_group

COMMANDS: Final = {
    "list": Lazy("evertick.cli.script.reading:list_scripts", "List scripts"),
    "create": Lazy("evertick.cli.script.changes:create", "Write a new script as a draft, from a file or stdin"),
    "edit": Lazy("evertick.cli.script.changes:edit", "Change the draft: from a file, or in an editor"),
    "test": Lazy("evertick.cli.script.changes:test", "Run the draft and write nothing; show what it did"),
    "publish": Lazy("evertick.cli.script.changes:publish", "Make the draft the version that runs"),
    "rollback": Lazy("evertick.cli.script.changes:rollback", "Let an earlier version run again"),
    "run": Lazy("evertick.cli.script.changes:run", "Run a script as a job"),
    "get": Lazy("evertick.cli.script.reading:get", "Show a script, or one of its versions"),
    "versions": Lazy("evertick.cli.script.reading:versions", "List the versions of a script"),
    "runs": Lazy("evertick.cli.script.reading:runs", "List runs: how they ended and what they used"),
    "logs": Lazy("evertick.cli.script.reading:logs", "Show what the last runs of a script have logged"),
    "limits": Lazy("evertick.cli.script.changes:limits", "Show what scripts of the tenant may use, or change it"),
    "delete": Lazy("evertick.cli.script.changes:delete", "Delete a script that no schedule runs"),
}

script = lazy_group("script", "Scripts of customers: drafts, versions, tests and runs, in a sandbox.", COMMANDS)
