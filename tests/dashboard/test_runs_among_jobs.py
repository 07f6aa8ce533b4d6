"""Runs of workflows are jobs, too, while they wait. They have a page of their own, and are no functions that wait."""

from tests.dashboard.conftest import Site, text_of


def begun(site: Site) -> list[str]:
    """Three jobs and two runs that wait."""
    order = site.app.functions.resolve("shop.order")
    jobs = [site.app.scheduler.run_after(3_600, order, item=str(n)) for n in range(3)]
    return [*jobs, *(site.app.workflows.start("shop.fulfil", order_id=str(n)) for n in range(2))]


def test_runs_that_wait_are_no_functions_that_wait(site: Site) -> None:
    *jobs, _, two = begun(site)
    page = site.page("functions")
    assert text_of(page.select_one(".tabs")).startswith("Pending 3 ")  # type: ignore[arg-type]
    assert {str(each["id"]) for each in page.select("#rows tbody tr")} == set(jobs)
    assert "Run 3 now…" in text_of(page)
    assert "Cancel all 3…" in text_of(page)
    assert "shop.fulfil" not in [text_of(each) for each in page.select("select[name=function] option")]
    assert len(site.page("functions?order=due").select("#rows tbody tr")) == 3
    none = site.page("functions?function=shop.fulfil")
    assert "shop.fulfil is a workflow" in text_of(none)
    [link] = none.select("#rows a.go")
    assert text_of(site.page(str(link["href"]))).count("shop.fulfil") >= 2
    assert site.app.jobs.count(state="pending").number == 5
    assert site.app.jobs.count(state="pending", without_runs=True).number == 3
    assert two not in {each.id for each in site.app.jobs.list(without_runs=True).jobs}


def test_what_is_done_to_all_pending_jobs_leaves_runs_alone(site: Site) -> None:
    *jobs, one, two = begun(site)
    form = site.page("jobs/cancel-all?state=pending")
    assert "Cancel 3 pending jobs?" in text_of(form)
    assert "evertick job cancel-all --yes --without-runs" in text_of(form)
    assert "1 of them is a run of a workflow" in text_of(
        site.page(f"jobs/cancel-all?state=pending&row={jobs[0]}&row={one}")
    )
    site.send("jobs/cancel-all?state=pending", typed="cancel 3")
    assert {each.state for each in site.app.jobs.get_many(jobs) if each is not None} == {"canceled"}
    assert {site.app.workflows.get(each).state for each in (one, two)} == {"pending"}
