"""`evertick schedule export` and `apply`: files of schedules, on both databases and on a server."""

import io
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from evertick import App, MutationCtx, Retry, cron, every
from evertick.api.schedules import ScheduleDescription
from evertick.cli.schedule.files import plan
from evertick.cli.schedule.local_session import ScheduleSession
from evertick.cli.schedule.session import Session
from evertick.errors import Misuse
from tests.cli.desk import Command, Ended, work_off
from tests.server.serving import serving

YAML = """\
schedules:
- id: billing.close
  when: at 6pm on the last day of the month
  function: shop.count
  args: {step: 2}
  overlap: buffer_all
- id: billing.remind
  when:
    crons: [0 9 * * 1-5]
    time_zone: Europe/Berlin
  function: shop.count
"""
UNSEEN = "note: nothing in this database has called shop.count yet; its runs wait until a worker knows it\n"
OUTAGE = re.compile(r"note: [^\r\n]*after an outage[^\n]*\n")
"""The warning that a schedule loses times, which is a subject of its own."""
REMIND = "- id: billing.remind\n  when: every 2 hours\n  function: shop.count\n"


def shop() -> App:
    """An app whose function schedules call."""
    app = App("shop")

    @app.mutation(name="shop.count")
    def count(ctx: MutationCtx, step: int = 1) -> int:
        return step

    app.crons.add("of code", every(hours=1), count)
    return app


@pytest.fixture(params=["sqlite", "postgres"])
def db(
    request: pytest.FixtureRequest, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[App]:
    """The database of an app, which commands find without an option."""
    url = f"sqlite:///{tmp_path}/shop.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    monkeypatch.setenv("EVERTICK_DATABASE_URL", url)
    app = shop()
    app.migrate()
    yield app
    app.close()


def work_once(app: App) -> None:
    """Let a worker start and run a job: its start writes the crons of code."""
    app.scheduler.run_after(0, app.functions.resolve("shop.count"))
    work_off(app, 1)


@pytest.fixture
def one(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """As `db`, on SQLite alone."""
    monkeypatch.setenv("EVERTICK_DATABASE_URL", f"sqlite:///{tmp_path}/shop.db")
    app = shop()
    app.open()
    yield app
    app.close()


Apply = Callable[..., Ended]


@pytest.fixture
def apply(command: Command, tmp_path: Path) -> Apply:
    """Applies a text as a file of the name `f.yaml`."""

    def applied(text: str, *words: str) -> Ended:
        (tmp_path / "f.yaml").write_text(text, encoding="utf-8")
        return command("schedule", "apply", "f.yaml", *words)

    return applied


def fill(app: App) -> None:
    """Schedules with every option, and none."""
    count = app.functions.resolve("shop.count")
    app.schedules.create("plain", when=every(hours=5), do=count)
    app.schedules.create(
        "everything",
        when=[cron("0 9 * * 1-5", tz="Europe/Berlin"), cron("30 17 * * 5", tz="Europe/Berlin")],
        do=count.with_args(step=3),
        start=datetime(2026, 1, 1, tzinfo=UTC),
        end=datetime(2090, 1, 1, tzinfo=UTC),
        jitter=30,
        exclude=date(2027, 1, 1),
        overlap="buffer_one",
        concurrency_limit=3,
        catch_up="latest",
        catch_up_window=timedelta(hours=1),
        pause_on_failure=True,
        buffer_limit=5,
        retry=Retry(5, first=0.5, cap=60, jitter=0.25),
        remaining_actions=7,
        workflow_id="stem",
        run_id_template="run {nominal}",
        note="two\nlines: 'quoted' # no comment\n",
        memo={
            "on": "yes",
            "no": None,
            "time": "17:30",
            "day": "2026-01-01",
            "n": [1, -2.5, 1e30, "0o17", ""],
            "ü": "ß",
        },
    )
    app.schedules.create("resting", when="every day at noon", do=count, paused=True, note="on holiday")
    app.schedules.create("resting-until", when="only when triggered", do=count, paused=datetime(2090, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_what_was_exported_makes_the_same_and_then_changes_nothing(
    form: str, db: App, command: Command, tmp_path: Path
) -> None:
    fill(db)
    first = command("schedule", "export", "-o", form)
    assert (first.code, first.err) == (0, "")
    assert "of code" not in first.out
    (tmp_path / "f").write_text(first.out, encoding="utf-8")

    again = command("schedule", "apply", "f", "--check")
    assert (again.code, again.out, again.err) == (0, "", "4 unchanged\n")
    assert command("schedule", "apply", "f").code == 0  # nothing to confirm

    db.schedules.delete_all(kind="schedule")
    done = command("schedule", "apply", "f", "--yes", "-o", "none")
    assert (done.code, OUTAGE.sub("", done.err)) == (0, f"{UNSEEN}4 created\n")
    assert command("schedule", "export", "-o", form).out == first.out
    assert command("schedule", "apply", "f", "--check").code == 0


@pytest.mark.long
def test_a_server_is_a_database_to_it(one: App, command: Command, tmp_path: Path) -> None:
    fill(one)
    with serving(one) as url:
        remote = ("--url", url, "--token", one.tokens.create("root", scope="admin").secret)
        first = command("schedule", "export", *remote)
        assert first.out == command("schedule", "export").out
        (tmp_path / "f").write_text(first.out.replace("every: 5h", "every: 6h"), encoding="utf-8")
        shown = command("schedule", "apply", "f", "--check", *remote)
        assert (shown.code, shown.err) == (8, "1 would be changed, 3 unchanged\n")
        assert command("schedule", "export", *remote).out == first.out
        one.schedules.delete_all(kind="schedule")
        assert OUTAGE.sub("", command("schedule", "apply", "f", "--yes", *remote).err) == "4 created\n"
        assert command("schedule", "export", *remote).out == (tmp_path / "f").read_text()
        (tmp_path / "f").write_text(YAML.replace("step: 2", "stp: 2"), encoding="utf-8")
        refused = command("schedule", "apply", "f", "--yes", *remote)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith("f:2: billing.close: ArgumentValidationError: shop.count(step): stp: ")
        assert one.schedules.list(id_contains="billing").schedules == ()


def test_the_difference_is_shown_field_by_field(one: App, apply: Apply, command: Command) -> None:
    assert OUTAGE.sub("", apply(YAML, "--yes").err) == f"{UNSEEN}2 created\n"
    changed = YAML.replace("buffer_all", "skip").replace("0 9", "0 8").replace("  args: {step: 2}\n", "")
    shown = apply(changed + "- {id: new, when: every 2 hours, function: shop.count, note: hello}\n", "--dry-run")

    assert (shown.code, OUTAGE.sub("", shown.err)) == (0, "1 would be created, 2 would be changed\n")
    lines = shown.out.splitlines()
    assert lines[0] == "~ billing.close"
    assert [line.split() for line in lines[1:3]] == [
        ["input", '{"step":', "2}", "->", "{}"], ["overlap", "buffer_all", "->", "skip"],
    ]  # fmt: skip
    assert lines[3:6] == [
        "~ billing.remind",
        "    times             at 09:00 on weekdays, Berlin time -> at 08:00 on weekdays, Berlin time",
        '    spec              {"crons": ["0 9 * * 1-5"]} -> {"crons": ["0 8 * * 1-5"]}',
    ]
    assert lines[6].startswith("    next              20")
    assert " -> 20" in lines[6]
    assert lines[11] == "+ new  every 2 hours: shop.count"
    assert apply(changed, "--check").code == 8
    row = apply(changed, "--yes", "-o", "json").json
    assert (row["updated"], row["failed"], row["dry_run"]) == (2, 0, False)
    assert row["schedules"][0]["changes"] == {"input": [{"step": 2}, {}], "overlap": ["buffer_all", "skip"]}
    assert len(row["schedules"][1]["next_after"]) == 5
    assert apply(changed, "--check").code == 0
    history = command("schedule", "history", "billing.close", "--fields", "action,detail").out.splitlines()
    assert history[0] == "updated\targs: {'step': 2} -> {}; overlap: buffer_all -> skip"


def test_wrong_entries_are_told_with_their_lines_before_anything_is_changed(one: App, apply: Apply) -> None:
    done = apply(
        YAML
        + "- id: c\n  when: every dya\n  function: shop.count\n"
        + "- id: d\n  when:\n    crons: [0 9 * * *]\n  functon: shop.count\n"
        + "- id: billing.close\n  when: '@daily'\n  function: shop.count\n"
        + "- 7\n",
        "--yes",
    )
    assert (done.code, done.out) == (2, "")
    lines = done.err.splitlines()
    assert lines[0].startswith("f.yaml:13: c: when: 'every dya' is neither a sentence nor a cron line")
    assert lines[1:] == [
        "f.yaml:15: d: function: it is missing",
        "f.yaml:18: d: functon: a schedule has no such member; did you mean 'function'?",
        "f.yaml:22: a schedule is a mapping of its members",
        "f.yaml:19: billing.close: it is there twice, first at f.yaml:2",
        "error: 5 problems in what is to be applied; nothing was changed",
    ]
    assert one.schedules.list(kind="schedule").schedules == ()


def test_what_only_the_database_refuses_is_told_the_same_way(one: App, apply: Apply) -> None:
    work_once(one)
    never = "- {id: never, when: {crons: ['0 9 30 2 *']}, function: shop.count}\n"
    done = apply(YAML + never + "- {id: of code, when: every 2 hours, function: shop.count}\n", "--yes")
    assert done.code == 2
    assert done.err.splitlines()[0].startswith("f.yaml:12: never: the spec never fires")
    assert done.err.splitlines()[1] == "f.yaml:13: of code: a cron of this id is declared in code; change it there"
    done = apply(YAML + "- {id: f, when: every 2 hours, function: shop.count, overlap: sometimes}\n", "--yes")
    assert done.err.startswith("f.yaml:12: f: overlap is one of skip,")
    assert one.schedules.list(kind="schedule").schedules == ()


@pytest.mark.long
def test_everything_that_is_wrong_with_a_file_is_reported_in_one_round(one: App, apply: Apply) -> None:
    """What its form forbids, what a spec cannot say, and what the database refuses, also in one entry."""
    work_once(one)  # so its function is known
    one.schedules.create("there", when=every(hours=1), do="shop.count")
    wrong = (
        "- id: a\n  when: every dya\n  function: shop.cuont\n  overlap: sometimes\n  catch_up: never\n"
        "  catch_up_window: soon\n  concurrency_limit: many\n"
        "- {id: b, when: {crons: ['0 9 30 2 *']}, function: shop.count, overlap: often}\n"
        "- {id: there, when: every 2 hours, function: shop.count, overlap: now, catch_up: later, note: 7}\n"
    )
    done = apply("schedules:\n" + wrong, "--yes")

    assert done.code == 2
    said = [line.partition("; did")[0].partition("; write")[0] for line in done.err.splitlines()]
    for begin in (
        "f.yaml:7: a: catch_up_window: 'soon' is not a duration",
        "f.yaml:8: a: concurrency_limit: ",
        "f.yaml:3: a: when: 'every dya' is neither a sentence nor a cron line",
        "f.yaml:2: a: no worker, job or schedule has a function 'shop.cuont'",
        "f.yaml:2: a: overlap is one of",
        "f.yaml:2: a: catch_up is one of",
        "f.yaml:9: b: the spec never fires",
        "f.yaml:9: b: overlap is one of",
        "f.yaml:10: there: note: ",
        "f.yaml:10: there: overlap is one of",
        "f.yaml:10: there: catch_up is one of",
    ):
        assert len([line for line in said if line.startswith(begin)]) == 1, (begin, said)
    assert said[-1] == "error: 11 problems in what is to be applied; nothing was changed"
    assert [each.id for each in one.schedules.list(kind="schedule").schedules] == ["there"]


def test_an_edit_meanwhile_is_a_conflict_and_stays(
    one: App, apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    apply(YAML, "--yes")
    one.schedules.update("billing.remind", overlap="allow_all")

    def edited(*args: object, **options: object) -> bool:
        one.schedules.update("billing.remind", buffer_limit=len(one.schedules.history("billing.remind")))
        return True

    monkeypatch.setattr("evertick.cli.schedule.files.apply.is_terminal", lambda stream: True)
    monkeypatch.setattr("click.confirm", edited)

    alone = apply("schedules:\n" + REMIND)
    assert alone.code == 5
    assert (
        OUTAGE.sub("", alone.err)
        .splitlines()[0]
        .startswith("billing.remind: schedule 'billing.remind' is at version 3, not 2")
    )
    assert alone.err.splitlines()[-1] == "1 failed"
    both = apply("schedules:\n" + REMIND + "- {id: new, when: every 2 hours, function: shop.count}\n")
    assert both.code == 6
    assert both.err.splitlines()[-1] == "1 created, 1 failed"
    assert one.schedules.get("billing.remind").policies.overlap == "allow_all"


@pytest.mark.parametrize("others", [1, 99])
def test_edits_while_it_looks_are_planned_for_or_a_conflict(
    one: App, apply: Apply, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """Another program creates, changes and deletes what was just looked at."""
    apply(YAML, "--yes")
    look, edits = plan._found, dict.fromkeys(("billing.close", "billing.remind", "new"), others)

    def found(session: Session, schedule_id: str) -> ScheduleDescription | None:
        before = look(session, schedule_id)
        if edits[schedule_id] > 0:
            edits[schedule_id] -= 1
            if before is None:
                one.schedules.create(schedule_id, when=every(hours=1), do="shop.count")
            elif schedule_id == "billing.close":
                one.schedules.delete(schedule_id)
            else:
                one.schedules.update(schedule_id, buffer_limit=200 + edits[schedule_id])
        return before

    monkeypatch.setattr(plan, "_found", found)
    done = apply("schedules:\n" + REMIND + "- {id: new, when: every 2 hours, function: shop.count}\n", "--yes")
    if others == 1:
        assert (done.code, done.err.splitlines()[-1]) == (0, "2 changed")
        done = apply(YAML, "--yes")
        assert (done.code, done.err.splitlines()[-1]) == (0, "1 created, 1 changed")
    else:
        assert done.code == 5
        assert "f.yaml:2: billing.remind: others change it at the same time" in done.err


def test_it_asks_and_what_cannot_be_asked_needs_yes(
    one: App, apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    refused = apply(YAML)
    assert refused.code == 2
    assert "this changes 2 schedules; give --yes where no terminal can confirm it" in refused.err
    monkeypatch.setattr("evertick.cli.schedule.files.apply.is_terminal", lambda stream: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: "n")
    assert apply(YAML).code == 130
    assert one.schedules.list(kind="schedule").schedules == ()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_shows_how_far_it_is(
    is_terminal: bool, one: App, apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evertick.cli.core.progress.is_terminal", lambda stream: is_terminal)
    done = apply(YAML, "--yes")  # what erases a line is left out where no terminal is
    compared = [f"{n} of 2 schedules are compared" for n in (1, 2)]
    applied = [f"{n} of 2 schedules are done" for n in (1, 2)]
    shown = ["\r" + "\r".join([*lines, ""]) for lines in (compared, applied)] if is_terminal else ["", ""]
    assert done.code == 0
    assert OUTAGE.sub("", done.err) == f"{shown[0]}{UNSEEN}{shown[1]}2 created\n"


def test_on_a_terminal_failures_stand_on_lines_of_their_own(
    one: App, apply: Apply, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evertick.cli.core.progress.is_terminal", lambda stream: True)

    def fails(self: object, *args: object, dry_run: bool, **definition: object) -> object:
        if not dry_run:
            raise Misuse("no room")
        return created(self, *args, dry_run=True, **definition)  # type: ignore[arg-type]

    created = ScheduleSession.created
    monkeypatch.setattr(ScheduleSession, "created", fails)
    done = apply(YAML, "--yes")
    assert "\rbilling.remind: no room\n" in done.err


def test_pruning_deletes_what_its_scope_has_and_the_file_has_not(one: App, apply: Apply, command: Command) -> None:
    count = one.functions.resolve("shop.count")
    apply(YAML, "--yes")
    for name in ("billing.old", "other"):
        one.schedules.create(name, when=every(hours=1), do=count, memo={"team": "blue"})
    one.crons.add("billing.cron", every(hours=1), count)
    work_once(one)

    assert apply(YAML, "--prune", "--yes").code == 2
    shown = apply(YAML, "--prune", "--prefix", "billing.", "--check")
    assert (shown.code, shown.out) == (8, "- billing.old\n")
    assert shown.err == "1 would be deleted, 2 unchanged\n"
    outside = apply(YAML, "--prune", "--label", "team=blue", "--yes")
    assert outside.code == 2
    assert outside.err.startswith("f.yaml:2: billing.close: it is outside of --label team=blue\n")
    assert apply(YAML, "--prune", "--prefix", "billing.", "--yes").err == "1 deleted, 2 unchanged\n"
    blue = command("schedule", "export", "--label", "team=blue").out
    assert blue.startswith("schedules:\n- id: other\n")
    assert apply(blue, "--prune", "--label", "team=blue", "--yes").err == "1 unchanged\n"
    assert apply("schedules: []", "--prune", "--label", "team=blue", "--yes").err == "1 deleted\n"
    assert apply("schedules: []", "--prune", "--label", "blue", "--yes").code == 2


def test_a_pause_of_an_operator_stays_and_one_of_the_file_comes_and_goes(one: App, apply: Apply) -> None:
    noted = YAML.replace("step: 2}\n", "step: 2}\n  note: closes the month\n")
    apply(noted, "--yes")
    one.schedules.pause("billing.close", "the database is down")
    assert apply(noted, "--check").code == 0
    ended = noted.replace("  note", "  paused: false\n  note")
    assert "    paused            true -> false\n" in apply(ended, "--yes").out
    now = one.schedules.get("billing.close")
    assert (now.pause, now.note) == (None, "closes the month")

    until = noted.replace("  note", "  paused: 2090-01-01T00:00:00Z\n  note")
    assert "    paused            false -> 2090-01-01T00:00:00Z\n" in apply(until, "--yes").out
    pause = one.schedules.get("billing.close").pause
    assert pause is not None
    assert (pause.until, pause.note) == (datetime(2090, 1, 1, tzinfo=UTC), "closes the month")
    assert apply(until, "--check").code == 0
    assert apply(until.replace("2090", "2020"), "--yes").err == "1 changed, 1 unchanged\n"
    assert one.schedules.get("billing.close").pause is None


def test_remaining_actions_count_down_and_are_set_again_only_if_asked(one: App, apply: Apply) -> None:
    text = YAML.replace("step: 2}\n", "step: 2}\n  remaining_actions: 5\n")
    apply(text, "--yes")
    one.schedules.update("billing.close", remaining_actions=3)  # as two runs would leave it
    assert apply(text, "--check").code == 0
    assert "    remaining_actions 3 -> 5\n" in apply(text, "--reset-remaining", "--yes").out
    assert one.schedules.get("billing.close").remaining == 5


def test_what_has_ended_is_left_out_and_left_alone(one: App, apply: Apply, command: Command) -> None:
    one.schedules.create(
        "over", when=every(hours=1), do="shop.count", end=datetime.now(UTC) + timedelta(hours=2)
    )  # fmt: skip
    one.schedules.update("over", end=datetime(2020, 1, 1, tzinfo=UTC))
    assert one.schedules.get("over").status == "completed"
    shown = command("schedule", "export")
    assert (shown.out, shown.err) == ("schedules: []\n", "note: left out, because they have ended: over\n")
    assert apply(shown.out, "--prune", "--prefix", "o", "--yes").err == "0 unchanged\n"


def test_crons_are_shown_if_asked_and_never_applied(one: App, apply: Apply, command: Command) -> None:
    work_once(one)
    shown = command("schedule", "export", "--crons").out
    assert shown.startswith("schedules: []\ncrons:\n- id: of code\n")
    done = apply(shown.replace("1h", "2h"), "--check")
    assert (done.code, done.err) == (
        0,
        "note: the crons of the file (1) are declared in code and left alone\n0 unchanged\n",
    )


def test_export_takes_ids_a_query_and_a_prefix(one: App, apply: Apply, command: Command) -> None:
    apply(YAML, "--yes")
    one.schedules.pause("billing.close")

    def ids(*words: str) -> list[str]:
        rows = command("schedule", "export", *words, "-o", "json").json
        return [row["id"] for row in rows["schedules"]]

    assert ids("billing.remind", "billing.remind") == ["billing.remind"]
    assert ids("-q", "state:paused") == ["billing.close"]
    assert ids("--prefix", "billing.r") == ["billing.remind"]
    assert ids("--prefix", "illing") == []
    assert command("schedule", "export", "none").code == 3
    assert command("schedule", "export", "billing.close", "-q", "state:paused").code == 2


def test_several_files_and_stdin_are_one(
    one: App, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    (tmp_path / "a.yaml").write_text(YAML)
    (tmp_path / "b.json").write_text('{"schedules": [\n  {"id": "b", "when": "@daily", "function": "shop.count"}\n]}')
    monkeypatch.setattr("sys.stdin", io.StringIO("schedules:\n- {id: c, when: '@daily', function: shop.count}\n"))
    applied = command("schedule", "apply", "a.yaml", "b.json", "-", "--yes")
    assert OUTAGE.sub("", applied.err) == f"{UNSEEN}4 created\n"
    (tmp_path / "b.json").write_text('{"schedules": [\n  {"id": "b", "when": "@daily"}\n]}')
    assert command("schedule", "apply", "b.json").err.startswith("b.json:2: b: function: it is missing\n")
    assert (
        command("schedule", "apply", "none.yaml").err == "error: none.yaml cannot be read: No such file or directory\n"
    )


def test_color_is_chosen_by_the_option_else_by_the_environment(
    one: App, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f.yaml").write_text(YAML, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown = ("schedule", "apply", "f.yaml", "--dry-run")

    def is_colored(*options: str) -> bool:
        return "\x1b[" in command(*options, *shown).out

    assert (is_colored(), is_colored("--color", "always"), is_colored("--color", "auto")) == (False, True, False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert (is_colored(), is_colored("--color", "always")) == (False, True)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert (is_colored(), is_colored("--color", "never"), is_colored()) == (True, False, True)
