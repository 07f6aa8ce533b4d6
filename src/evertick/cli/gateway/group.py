"""`evertick gateway ...`: processes with crons of their own. A new command is one line in this table."""

from typing import Final

from evertick.cli.core.lazy import Lazy, lazy_group

COMMANDS: Final = {
    "run": Lazy("evertick.cli.gateway.process:run", "Run a gateway: its crons, its API and its platform"),
    "check": Lazy("evertick.cli.gateway.process:check", "Check that a gateway does what the contract says"),
    "list": Lazy("evertick.cli.gateway.fleet:list_gateways", "List gateways and how they are"),
    "get": Lazy("evertick.cli.gateway.fleet:get", "Show a gateway"),
    "cron": Lazy("evertick.cli.gateway.crons:cron", "List, add, change, run and remove crons of gateways"),
    "join-token": Lazy("evertick.cli.gateway.fleet:join_token", "Make a token with which a gateway registers"),
    "rotate": Lazy("evertick.cli.gateway.fleet:rotate", "Let a gateway get a new secret and a new token"),
    "remove": Lazy("evertick.cli.gateway.fleet:remove", "Forget a gateway"),
}

gateway = lazy_group(
    "gateway", "Gateways: processes that own crons and run them, also while the platform is down.", COMMANDS
)
