"""Forms that are sent while the database cannot be written: nothing that was typed is wrong, and no path is shown."""

from typing import Any, NoReturn

import pytest

from evertick import every
from evertick.base.errors import DatabaseUnavailable
from evertick.server.routes import jobs, schedules, workflows
from evertick.server.routes.jobs import CallerJobs
from tests.app.conftest import OpenApp
from tests.dashboard.conftest import site_of, text_of
from tests.server.conftest import order_of, shop_on

PLACE = "/srv/private/shop.db"


async def locked(*_args: Any, **_options: Any) -> NoReturn:
    raise DatabaseUnavailable(f"another process or connection holds the write lock of {PLACE}")


def test_a_form_sent_in_an_outage_says_so_and_names_no_file(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = shop_on(open_app)
    app.schedules.create("s", when=every(hours=1), do=order_of(app))
    job = app.scheduler.run_after(3_600, app.functions.resolve("shop.order"), item="later")
    run = app.workflows.start("shop.fulfil", order_id="7")
    site = site_of(app).by("edit", "default")
    forms: list[tuple[Any, str, str, dict[str, str]]] = [
        (schedules, "trigger_schedule", "schedules/s/trigger", {"request": "q1"}),
        (schedules, "pause_schedule", "schedules/s/pause", {"note": "x"}),
        (schedules, "delete_schedule", "schedules/s/delete", {"typed": "s"}),
        (jobs, "schedule_job", "functions/shop.order/run", {"when": "after", "after": "9s", "a.item": "v"}),
        (CallerJobs, "_run", f"jobs/{job}/reschedule", {"at": "now+2h"}),
        (CallerJobs, "_run", f"jobs/cancel-all?state=pending&row={job}", {}),
        (workflows, "signal_run", f"workflows/{run}/signal", {"event": "paid"}),
    ]
    for module, name, path, fields in forms:
        monkeypatch.setattr(module, name, locked)
        reply = site.send(path, status=503, **fields)
        assert "The database cannot be written now" in text_of(reply.text), path
        assert PLACE not in reply.text, path
    assert caplog.text.count(PLACE) == len(forms)
