"""Requests made from the server's own OpenAPI description, valid and invalid ones: no 5xx, and no reply that breaks it.

    python -m tests.server.fuzz [--cases 10000] [--database sqlite|postgres] [--base N]

Half of the requests are about things that exist. Ends with the code 1 if a reply was wrong.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import schemathesis
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from evertick import App
from evertick.api.gateway_fleet import Registration
from evertick.server.application import Server
from evertick.server.limits import Limits, Rate
from tests.postgres import PostgresServer
from tests.server.conftest import HOME, Http, shop_on

# The schema cannot say which functions, tenants and times there are; that a token is needed, `test_scopes` shows.
LEFT_OUT: Final = [positive_data_acceptance, ignored_auth]


def known_ids(http: Http) -> dict[str, list[str]]:
    """Things that exist, by the parameter of a path that names them."""
    order = {"function": "shop.order", "args": {"item": "x"}}
    jobs = [http.ok("POST", f"{HOME}/jobs", json={**order, "after": 3_600})["id"] for _ in range(5)]
    runs = [
        http.ok("POST", f"{HOME}/workflows", json={"function": "shop.fulfil", "args": {"order_id": "7"}})["id"]
        for _ in range(5)
    ]
    schedules = ["s", "a/b", "ü"]
    for each in schedules:
        http.ok("POST", f"{HOME}/schedules", json={"id": each, "when": "0 9 * * *", **order})
    span = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-05T00:00:00Z"}
    backfill = http.ok("POST", f"{HOME}/schedules/s/backfills", json=span)["id"]
    token = http.ok("POST", f"{HOME}/tokens", json={"name": "t"})["id"]
    saved = {"page": "schedules", "name": "v", "params": {"kind": "cron"}}
    view = http.ok("POST", f"{HOME}/views", json=saved)["id"]
    document = http.app.db.insert("orders", {"item": "x", "n": 1})
    http.app.scripts.create("greet", "export default async (ctx) => ctx.input", language="javascript")
    http.app.scripts.publish("greet")
    gateways = http.app.gateways
    said = Registration(join_token=gateways.join_token("edge-1").token, name="edge-1", instance_id="i")
    made = gateways.joining.register(said)
    gateways.joining.deregister(made.secret, "i")  # it is offline, so that nothing waits for it
    return {
        "cron": ["a"],
        "tenant": ["default"], "job_id": jobs, "run_id": runs, "schedule_id": schedules, "backfill_id": [backfill],
        "view_id": [view],
        "token_id": [token], "gateway": ["edge-1", "none"],
        "name": ["shop.order", "shop.count", "shop.fulfil", "mail", "default", "greet", "edge-1"],
        "version": ["1"],
        "action": ["pause", "resume"],
        "table": ["orders", "none"], "document_id": [document],
    }  # fmt: skip


def fuzz(url: str, cases: int, base: int) -> tuple[Counter[int], dict[tuple[str, str, str], str]]:
    """The statuses of all replies, and the wrong ones."""
    app = shop_on(lambda name, **options: App(name, database_url=url, **options))
    app.scripts.tables("orders", write=["orders"])
    many = Rate(10**9, 1.0)
    server = Server(app, limits=Limits(requests=many, failures=many))
    secret = app.tokens.create("root", scope="admin").secret
    ids = known_ids(Http(app, server, secret))
    chance = random.Random(base)
    headers = {"Authorization": f"Bearer {secret}", "Host": "localhost"}
    schema = schemathesis.openapi.from_asgi("/openapi.json", server, headers=headers)
    # A stream is no reply that ends; tests/server/test_events.py reads it.
    operations = [each.ok() for each in schema.exclude(path_regex="/events$").get_all_operations()]
    statuses: Counter[int] = Counter()
    wrong: dict[tuple[str, str, str], str] = {}
    for number, operation in enumerate(operations):

        @seed(base + number)
        @given(case=operation.as_strategy())
        @settings(
            max_examples=max(1, cases // len(operations)),
            deadline=None, suppress_health_check=list(HealthCheck), database=None, phases=[Phase.generate],
            verbosity=Verbosity.quiet,
        )  # fmt: skip
        def run(case: Any) -> None:
            for parameter in case.path_parameters or {}:
                if chance.random() < (0.9 if parameter == "tenant" else 0.5):
                    case.path_parameters[parameter] = chance.choice(ids[parameter]).replace("/", "%2F")
            reply = case.call(headers=headers)
            statuses[reply.status_code] += 1
            if reply.status_code == 503 and reply.json()["code"] == "gateway_unreachable":
                return  # as it should be: the gateway is offline
            try:
                case.validate_response(reply, excluded_checks=LEFT_OUT)
            except (AssertionError, BaseExceptionGroup) as error:
                which = (case.operation.method, case.operation.path, str(reply.status_code))
                wrong.setdefault(which, f"{error}"[:1_500])

        run()
    app.close()
    return statuses, wrong


@contextmanager
def database(kind: str) -> Iterator[str]:
    """The address of an empty database."""
    if kind == "sqlite":
        yield "sqlite://"
    else:
        with PostgresServer() as server:
            yield server.databases.create()


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--base", type=int, default=1)
    options = parser.parse_args()
    with database(options.database) as url:
        statuses, wrong = fuzz(url, options.cases, options.base)
    for which, text in wrong.items():
        print(" ".join(which), text, sep="\n")
    print(f"statuses: {dict(sorted(statuses.items()))}")
    print(f"{sum(statuses.values())} requests, {len(wrong)} wrong replies")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
