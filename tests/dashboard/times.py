"""Times on the page are those of the command line, the API and the engine: `python -m tests.dashboard.times`.

Random specs (`tests/recurrence/authors.py`) are typed into the form of a new schedule as the editor itself would show
them, and the times of the rendered preview are compared with what the others say of the same moment.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
from bs4 import BeautifulSoup
from hypothesis import HealthCheck, Phase, given, seed, settings

from evertick import App
from evertick.base.errors import InvalidSpec
from evertick.cli.schedule.preview import previews
from evertick.dashboard.application import Dashboard
from evertick.dashboard.editor.drafts import Draft
from evertick.dashboard.editor.forms import pairs_of
from evertick.dashboard.editor.session import TIMES
from evertick.recurrence.parse.moments import format_instant, parse_instant
from evertick.recurrence.search.compiler import compile_spec
from evertick.recurrence.spec.spec import Spec
from evertick.recurrence.wire.reading import spec_from_wire
from evertick.recurrence.wire.writing import spec_to_wire
from evertick.server.application import Server
from tests.recurrence.authors import specs

HOME = "/t/default/new-schedule/preview"
FAR = "9999-01-01T00:00:00Z"


class Comparison:
    """Asks all four for the times of specs, and counts how it went."""

    def __init__(self, app: App) -> None:
        self.server = Server(app)
        self.server.show(Dashboard())
        secret = app.tokens.create("times", scope="edit").secret
        self.headers = {
            "Origin": "http://localhost",
            "Cookie": f"evertick_token={secret}",
            "Authorization": f"Bearer {secret}",
        }
        self.counted: Counter[str] = Counter()

    def check(self, spec: Spec) -> None:
        """Compare the next times of a spec. Raises AssertionError."""
        try:
            wire = spec_to_wire(spec_from_wire(spec_to_wire(spec)))
        except InvalidSpec:
            self.counted["cannot be written"] += 1  # exclusions of one dialect in the other
            return
        asyncio.run(self._check(wire))

    async def _check(self, wire: dict[str, Any]) -> None:
        transport = httpx2.ASGITransport(app=self.server, raise_app_exceptions=False)
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", headers=self.headers, timeout=120
        ) as client:
            fields: dict[str, list[str]] = {"do": ["preview"]}
            for name, value in pairs_of(Draft.of_spec(spec_from_wire(wire))):
                fields.setdefault(name, []).append(value)
            page = BeautifulSoup((await client.post(HOME, data=fields)).text, "html.parser")
            [html] = page.select("html")
            now = parse_instant(str(html["data-now"]))
            recurrence = compile_spec(spec_from_wire(wire))
            expected = [format_instant(at) for at in recurrence.preview(TIMES, now)]
            refusal = " ".join(each.text for each in page.select("#f-sources-e") if not each.has_attr("hidden"))
            if refusal:
                assert "never fires" in refusal or "no further time" in refusal or "most allowed" in refusal, refusal
                assert bool(expected) == ("most allowed" in refusal), (refusal, expected)
                self.counted["refused"] += 1
                return
            assert not [each.text for each in page.select("p.err") if not each.has_attr("hidden")]
            rows = page.select("#preview tbody tr:not(.note) time")[: len(expected)]
            shown = [format_instant(int(datetime.fromisoformat(str(each["datetime"])).timestamp())) for each in rows]
            assert shown == expected, ("page", wire)
            body = {"when": wire, "start": format_instant(now + 1), "end": FAR, "limit": TIMES}
            reply = await client.post("/api/v1/tenants/default/schedules/preview", json=body)
            assert [each["nominal"] for each in reply.json()] == expected, ("API", wire, reply.text[:500])
        line = json.dumps({"id": 1, "spec": wire, "after": format_instant(now), "count": TIMES})
        [told] = previews([line], "now", TIMES)
        assert [format_instant(parse_instant(at)) for at in told.get("times", [])] == expected, ("CLI", wire)
        self.counted["agreed" if expected else "without times"] += 1


def run(app: App, number: int, chance: int) -> Counter[str]:
    """Compare the times of `number` random specs. Raises AssertionError with the least one that differs."""
    comparison = Comparison(app)
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

    @seed(chance)
    @settings(max_examples=number, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=checks)
    @given(specs())
    def all_agree(spec: Spec) -> None:
        comparison.check(spec)

    all_agree()
    return comparison.counted


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--specs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        app = App("times", database_url=f"sqlite:///{Path(folder)}/t.db")
        app.open()
        counted = run(app, asked.specs, asked.seed)
        app.close()
    print(f"seed {asked.seed}: " + ", ".join(f"{count:,} {word}" for word, count in counted.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
