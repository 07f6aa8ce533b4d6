"""Runs of workflows are jobs, too, while they wait: lists of pending jobs and what cancels them say so."""

from tests.dashboard.conftest import Site, text_of


def begun(site: Site) -> list[str]:
    """Two runs and three jobs that wait."""
    order = site.app.functions.resolve("shop.order")
    jobs = [site.app.scheduler.run_after(3_600, order, item=str(n)) for n in range(3)]
    return [*jobs, *(site.app.workflows.start("shop.fulfil", order_id=str(n)) for n in range(2))]


def test_the_list_of_pending_jobs_says_how_many_are_runs(site: Site) -> None:
    jobs = begun(site)
    page = site.page("functions")
    assert "2 of these are open runs of workflows: a run is a job, too, while it waits." in text_of(page)
    [link] = [each for each in page.select("#rows > p a") if text_of(each) == "Workflows"]
    assert text_of(site.page(str(link["href"]))).count("shop.fulfil") >= 2
    assert "Some of these are open runs" in text_of(site.page("functions?due=1d"))
    for path in ("functions?fn=shop.order", "functions?state=failed"):
        assert "open run" not in text_of(site.page(path)), path
    site.app.workflows.cancel(jobs[-1])
    site.app.workflows.cancel(jobs[-2])
    assert "open run" not in text_of(site.page("functions"))


def test_what_cancels_all_says_how_many_are_runs(site: Site) -> None:
    *jobs, one, two = begun(site)
    form = text_of(site.page("jobs/cancel-all?state=pending"))
    assert "Cancel 5 pending jobs?" in form
    assert "2 of them are runs of workflows" in form
    assert "1 of them is a run of a workflow" in text_of(
        site.page(f"jobs/cancel-all?state=pending&row={jobs[0]}&row={one}")
    )
    assert "runs of workflows" in text_of(site.page("jobs/cancel-all?state=pending&fn=shop.fulfil"))
    for path in ("jobs/cancel-all?state=pending&fn=shop.order", f"jobs/cancel-all?state=pending&row={jobs[0]}"):
        assert "of a workflow" not in text_of(site.page(path)), path
    site.send("jobs/cancel-all?state=pending", typed="cancel 5")
    assert site.app.workflows.get(two).state == "canceled"
