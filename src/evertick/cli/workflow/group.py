"""`evertick workflow ...`: runs of workflows. A new command is one line in this table."""

from typing import Final

from evertick.cli.core.lazy import Lazy, lazy_group

COMMANDS: Final = {
    "list": Lazy("evertick.cli.workflow.runs:list_runs", "List runs, the newest first"),
    "start": Lazy("evertick.cli.workflow.start:start", "Start a run; with --wait, say how it ended"),
    "get": Lazy("evertick.cli.workflow.runs:get_run", "Show a run: state, progress, result or error"),
    "children": Lazy("evertick.cli.workflow.runs:children", "List the child workflows of a run"),
    "wait": Lazy("evertick.cli.workflow.start:wait", "Wait until a run has ended"),
    "signal": Lazy("evertick.cli.workflow.changes:signal", "Send an event to a run"),
    "withdraw": Lazy("evertick.cli.workflow.changes:withdraw", "Take back an event that a run has not taken"),
    "cancel": Lazy("evertick.cli.workflow.changes:cancel", "Ask runs to end; their code can clean up"),
    "terminate": Lazy("evertick.cli.workflow.changes:terminate", "End runs at once"),
    "pause": Lazy("evertick.cli.workflow.changes:pause", "Let runs take no further step"),
    "resume": Lazy("evertick.cli.workflow.changes:resume", "Let paused runs go on"),
    "restart": Lazy("evertick.cli.workflow.restart:restart", "Run workflows again, also from one of their steps"),
    "type": Lazy("evertick.cli.workflow.changes:types", "Workflows themselves: let runs of them start or not"),
    "history": Lazy("evertick.cli.workflow.history:history", "Draw what a run has done, step by step"),
}

workflow = lazy_group("workflow", "Runs of workflows: what they wait for, what they did, and how they ended.", COMMANDS)
