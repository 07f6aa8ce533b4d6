"""What a failed run has called runs again with the run, and in no other way: nothing is done twice."""

import pytest

from evertick import App, MutationCtx, Step
from evertick.errors import JobNotRetryable, Misuse, StepFailed
from evertick.testing import World


class Clinic:
    """A run calls a child run, whose step, a job of its own, fails while `is_broken`; `charged` are its calls."""

    def __init__(self) -> None:
        self.app = App("clinic")
        self.is_broken = True
        self.charged: list[int] = []
        self.app.pool("bank", running=1)

        @self.app.mutation(name="clinic.charge")
        def charge(ctx: MutationCtx, number: int) -> None:
            self.charged.append(number)
            if self.is_broken:
                raise ConnectionError("no bank")

        @self.app.workflow(name="clinic.pay")
        async def pay(step: Step, number: int) -> None:
            await step.using(pool="bank").run(charge, number)

        @self.app.workflow(name="clinic.visit")
        async def visit(step: Step, number: int) -> None:
            await step.workflow(pay, number)

        self.charge, self.pay, self.visit = charge, pay, visit

    def fail(self, world: World) -> None:
        """Three visits fail; afterwards the bank is back."""
        for number in range(3):
            self.app.workflows.start(self.visit, number)
        world.drain()
        assert sorted(self.charged) == [0, 1, 2]
        self.is_broken = False
        self.charged.clear()


@pytest.fixture
def clinic() -> Clinic:
    """A clinic whose bank is away."""
    return Clinic()


def test_a_retry_of_all_leaves_out_what_runs_have_called(clinic: Clinic) -> None:
    with World(clinic.app) as world:
        clinic.fail(world)

        assert {job.function for job in clinic.app.jobs.list(not_retried=True).jobs} == {"clinic.visit"}
        assert clinic.app.jobs.count(not_retried=True).number == 3
        assert clinic.app.jobs.retry_all() == 3
        world.drain()

        assert sorted(clinic.charged) == [0, 1, 2]
        assert clinic.app.jobs.retry_all(function=clinic.charge) == 0


def test_canceled_calls_are_left_out_too(clinic: Clinic) -> None:
    with World(clinic.app) as world:
        clinic.app.pools.pause("bank")
        run = clinic.app.workflows.start(clinic.visit, 1)
        world.drain()
        clinic.app.workflows.cancel(run)
        world.drain()
        clinic.app.pools.resume("bank")

        assert clinic.app.jobs.retry_all(state="canceled") == 1
        clinic.is_broken = False
        world.drain()

        assert clinic.charged == [1]


def test_a_restart_of_all_leaves_children_to_the_runs_that_called_them(clinic: Clinic) -> None:
    with World(clinic.app) as world:
        clinic.fail(world)

        assert clinic.app.workflows.restart_all(from_failed=True) == 3
        world.drain()

        assert sorted(clinic.charged) == [0, 1, 2]
        assert clinic.app.workflows.list(not_retried=True).runs == ()
        assert [each["not_retried"] for each in clinic.app.jobs.counts_by_function().values()] == [0, 0, 0]
        assert clinic.app.jobs.retry_all() == clinic.app.workflows.restart_all() == 0


def test_a_call_of_a_run_is_not_retried_by_itself(clinic: Clinic) -> None:
    with World(clinic.app) as world:
        clinic.fail(world)
        job = clinic.app.jobs.list(function=clinic.charge, state="failed").jobs[0]
        child = clinic.app.workflows.list(clinic.pay, state="failed").runs[-1]

        with pytest.raises(JobNotRetryable, match=f"call of the run {job.parent_id}.* restart {job.parent_id} --from"):
            clinic.app.jobs.retry(job.id)
        with pytest.raises(JobNotRetryable, match=f"restart {child.parent_id} --from-failed"):
            clinic.app.jobs.retry(child.id)

        clinic.app.workflows.restart(child.id)  # by itself: that is what was asked for
        world.drain()
        assert len(clinic.charged) == 1


def test_a_call_that_its_run_has_done_without_is_made_again_from_that_step(clinic: Clinic) -> None:
    """Real once: the cure was `--from-failed`, which says that the run has succeeded."""

    @clinic.app.workflow(name="clinic.mail")
    async def mail(step: Step) -> str:
        try:
            await step.using(pool="bank").run(clinic.charge, 7)
        except StepFailed:
            return "another time"
        return "sent"

    with World(clinic.app) as world:
        run = clinic.app.workflows.start(mail)
        world.drain()
        job = clinic.app.jobs.list(function=clinic.charge, state="failed").jobs[0]
        with pytest.raises(JobNotRetryable, match=f"`evertick workflow restart {run} --step clinic.charge`"):
            clinic.app.jobs.retry(job.id)

        clinic.is_broken = False
        again = clinic.app.workflows.restart(run, step="clinic.charge")
        world.drain()

        assert clinic.app.workflows.result(again, timeout=0) == "sent"
        assert clinic.charged == [7, 7]


def test_what_failed_in_a_run_says_as_which_run_it_was_made_again(clinic: Clinic) -> None:
    with World(clinic.app) as world:
        clinic.fail(world)
        run = clinic.app.workflows.list(clinic.visit, state="failed").runs[0]

        again = clinic.app.workflows.restart(run.id)

        marked = [job.retried_as for job in clinic.app.jobs.list(state="failed").jobs]
        assert (marked.count(again), marked.count(None)) == (3, 6)


def test_a_key_that_begins_as_an_id_does_is_refused_with_one_that_is_not(clinic: Clinic) -> None:
    with World(clinic.app):
        with pytest.raises(Misuse, match="put a word before it, such as 'key:job_application-17'"):
            clinic.app.workflows.using(key="job_application-17")
        run = clinic.app.workflows.using(key="key:job_application-17").start(clinic.visit, 1)

        assert clinic.app.workflows.get("key:job_application-17").id == run
