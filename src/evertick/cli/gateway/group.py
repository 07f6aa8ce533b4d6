"""`evertick gateway ...`: processes with crons of their own. A new command is one line in this table."""

from typing import Final

from evertick.cli.core.lazy import Lazy, lazy_group

COMMANDS: Final = {
    "run": Lazy("evertick.cli.gateway.process:run", "Run a gateway: its crons, its API and its platform"),
    "check": Lazy("evertick.cli.gateway.process:check", "Check that a gateway does what the contract says"),
}

gateway = lazy_group(
    "gateway", "Gateways: processes that own crons and run them, also while the platform is down.", COMMANDS
)
