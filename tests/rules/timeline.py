"""Timelines: whole stories of a schedule, told as data, played against anything that can act as one.

`tests/vectors/temporal_policies.jsonl` holds facts taken from the tests of Temporal's server and Python SDK. A line of
kind `timeline` has a schedule, events in order, and every start that must come of it. `tests/vectors/timelines.jsonl`
holds further stories in the same form, worked out by hand from what Temporal documents. `play` tells such a story to a
`Driver`. One driver stands on the pure rules (`tests.rules.rules_driver`), another on the whole engine.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from evertick.base.instants import Instant, from_datetime, to_iso
from evertick.rules.schedules.catch_up import window_ms
from evertick.rules.schedules.policies import BUFFER_MAX, Overlap, Policies

VECTORS = Path(__file__).parent.parent / "vectors"

Json = dict[str, Any]


def vectors(kind: str, *, file: str = "temporal_policies.jsonl") -> list[Json]:
    """All vectors of one kind."""
    lines = [json.loads(line) for line in (VECTORS / file).read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def stories() -> list[Json]:
    """Temporal's timelines, and ours."""
    return vectors("timeline") + vectors("timeline", file="timelines.jsonl")


def instant(text: str) -> Instant:
    """`2022-06-01T00:05:00Z` as an instant."""
    return from_datetime(datetime.fromisoformat(text))


def policies_of(policy: Mapping[str, Any], limits: Mapping[str, Any]) -> Policies:
    """A vector's policy and limits in the words of the rules."""
    window_s = policy.get("catchup_window_s")
    if window_s is not None and window_s <= 0:
        window_s = None  # a field of protobuf that is not set
    return Policies(
        overlap=Overlap(policy.get("overlap", "skip")),
        catch_up_window_ms=window_ms(None if window_s is None else int(window_s * 1000)),
        pause_on_failure=policy.get("pause_on_failure", False),
        buffer_limit=limits.get("max_buffer", BUFFER_MAX),
    )


@dataclass(frozen=True, kw_only=True)
class Created:
    """The schedule as a story begins. `run_ms`: every run ends by itself, successfully, after so long."""

    schedule_id: str
    workflow_id: str
    spec: Json
    jitter_seed: str
    policies: Policies
    paused: bool
    remaining: int | None
    run_ms: int | None
    retention_ms: int | None
    listed: tuple[tuple[Instant, Instant], ...]
    """The due times as the story lists them (nominal, actual), for drivers without a spec engine of their own."""


@dataclass(frozen=True, kw_only=True)
class Started:
    """A start that happened, and what the run was given."""

    workflow_id: str
    at: Instant
    nominal_at: Instant
    last_completion_result: str | None
    last_failure: str | None


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """A run that was asked to cancel, or was terminated."""

    workflow_id: str
    at: Instant


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What describing the schedule tells."""

    token: object
    paused: bool
    notes: str
    remaining_actions: int | None
    action_count: int
    overlap_skipped: int
    buffer_dropped: int
    buffer_size: int
    missed_catchup_window: int
    running: tuple[str, ...]
    future_action_times: tuple[Instant, ...]


class NotThere(Exception):
    """The schedule does not exist, or does not any more."""


class Stale(Exception):
    """The token is not of the newest version."""


class Driver(Protocol):
    """Something that behaves like a schedule while time passes as it is told."""

    starts: list[Started]
    cancels: list[Stopped]
    terminates: list[Stopped]

    def create(self, created: Created, at: Instant) -> None:
        """The schedule begins to exist."""

    def advance(self, until: Instant, *, inclusive: bool) -> None:
        """Let time pass, do everything that is due before (or at) `until`."""

    def leave(self) -> None:
        """Nobody looks at the schedule from here on. Its runs go on."""

    def jump(self, to: Instant) -> None:
        """The scheduler was away until `to`; then it looks."""

    def complete(self, workflow_id: str, status: str, result: str | None, failure: str | None) -> None:
        """The run closes now."""

    def refuse_start(self, workflow_id: str, error: str) -> None:
        """The start of this run will be refused for good."""

    def trigger(self, overlap: Overlap | None, nominal_at: Instant | None) -> None:
        """One run now."""

    def backfill(self, start_at: Instant, end_at: Instant, overlap: Overlap | None) -> None:
        """What the spec names in the span, both ends inclusive."""

    def pause(self, note: str) -> None:
        """Pause."""

    def unpause(self, note: str) -> None:
        """Resume."""

    def update(
        self,
        *,
        spec: Json | None,
        workflow_id: str | None,
        policies: Policies | None,
        listed: tuple[tuple[Instant, Instant], ...],
        token: object | None,
    ) -> None:
        """Replace what is given. Raises Stale if `token` is given and old."""

    def delete(self) -> None:
        """The schedule goes."""

    def describe(self) -> Facts:
        """The schedule as it is. Raises NotThere if there is none."""

    def closed_at(self) -> Instant | None:
        """When the schedule went away by itself, for idleness."""


@dataclass
class Story:
    """One timeline being told."""

    vector: Json
    driver: Driver
    tokens: dict[str, object] = field(default_factory=dict)

    @property
    def limits(self) -> Json:
        limits: Json = self.vector.get("limits", {})
        return limits

    def listed(self) -> tuple[tuple[Instant, Instant], ...]:
        events = [event for event in self.vector["events"] if event["kind"] == "due"]
        return tuple((instant(event["nominal"]), instant(event["at"])) for event in events)

    def begin(self) -> None:
        schedule = self.vector["schedule"]
        state = schedule.get("state") or {}
        run_s, retention_s = self.vector.get("run_duration_s"), self.limits.get("idle_retention_s")
        created = Created(
            schedule_id=schedule["schedule_id"],
            workflow_id=schedule["workflow_id"],
            spec=schedule["spec"],
            jitter_seed=schedule.get("jitter_seed", ""),
            policies=policies_of(self.vector["policy"], self.limits),
            paused=state.get("paused", False),
            remaining=state.get("remaining_actions", 0) if state.get("limited_actions") else None,
            run_ms=None if run_s is None else int(run_s * 1000),
            retention_ms=None if retention_s is None else retention_s * 1000,
            listed=self.listed(),
        )
        # A story may begin with a scheduler that had been away since before its first line.
        outages = [instant(event["last_processed"]) for event in self.vector["events"] if "last_processed" in event]
        self.driver.create(created, Instant(min([instant(schedule["created_at"]), *outages])))

    def tell(self, event: Json) -> None:
        at = instant(event["at"])
        if event["kind"] == "resume_after_outage":
            self.driver.jump(at)
            return
        self.driver.advance(at, inclusive=event["kind"] in {"due", "wakeup"})
        getattr(self, "on_" + event["kind"])(event)

    def on_due(self, event: Json) -> None:
        """The driver found it by itself."""

    on_wakeup = on_due

    def on_outage_begins(self, event: Json) -> None:
        self.driver.advance(instant(event["at"]), inclusive=True)
        self.driver.leave()

    def on_create(self, event: Json) -> None:
        patch = event["initial_patch"]
        if "unpause" in patch:
            self.driver.unpause(patch["unpause"])
        if "pause" in patch:
            self.driver.pause(patch["pause"])
        if "trigger" in patch:
            self.on_trigger(patch["trigger"])
        self.on_backfill({"ranges": patch.get("backfill", [])})

    def on_start_fails(self, event: Json) -> None:
        self.driver.refuse_start(event["workflow_id"], event["error"])

    def on_complete(self, event: Json) -> None:
        self.driver.complete(event["workflow_id"], event["status"], event.get("result"), event.get("failure"))

    def on_trigger(self, event: Json) -> None:
        at = event.get("scheduled_time")
        self.driver.trigger(_overlap(event), None if at is None else instant(at))

    def on_backfill(self, event: Json) -> None:
        for span in event["ranges"]:
            self.driver.backfill(instant(span["start"]), instant(span["end"]), _overlap(span))

    def on_pause(self, event: Json) -> None:
        self.driver.pause(event["note"])

    def on_unpause(self, event: Json) -> None:
        self.driver.unpause(event["note"])

    def on_update(self, event: Json) -> None:
        policy = event.get("policy")
        try:
            self.driver.update(
                spec=event.get("spec"),
                workflow_id=event.get("workflow_id"),
                policies=None if policy is None else policies_of(policy, self.limits),
                listed=self.listed(),
                token=self.tokens.get(event.get("conflict_token", "")),
            )
        except Stale:
            assert "expect_error" in event, "the update was refused"
        else:
            assert "expect_error" not in event, "the update should have been refused"

    def on_delete(self, event: Json) -> None:
        self.driver.delete()

    def on_describe(self, event: Json) -> None:
        try:
            facts = self.driver.describe()
        except NotThere:
            assert event.get("expect_error") == "NOT_FOUND"
            return
        assert "expect_error" not in event
        if "remember_token" in event:
            self.tokens[event["remember_token"]] = facts.token

    def on_check(self, event: Json) -> None:
        expected = dict(event["expect"])
        if expected.pop("exists", True) is False:
            assert self.driver.closed_at() is not None
            return
        facts = self.driver.describe()
        for name, value in expected.items():
            _check(facts, name, value)

    def end(self) -> None:
        self.driver.advance(instant(self.vector["ends_at"]), inclusive=True)
        starts = [(start.workflow_id, start) for start in self.driver.starts]
        expected = self.vector["expect_starts"]
        assert [name for name, _ in starts] == [start["workflow_id"] for start in expected]
        for (_, start), wanted in zip(starts, expected, strict=True):
            _check_start(start, wanted, self.vector["schedule"]["schedule_id"])
        for name in ("cancels", "terminates"):
            stopped = [{"workflow_id": stop.workflow_id, "at": to_iso(stop.at)} for stop in getattr(self.driver, name)]
            assert stopped == self.vector.get(f"expect_{name}", [])
        if "expect_closed_at" in self.vector:
            closed_at = self.vector["expect_closed_at"]
            at = None if closed_at is None else instant(closed_at)
            self.driver.advance(instant(closed_at or self.vector["ends_at"]), inclusive=True)
            assert self.driver.closed_at() == at
        if "expect_closed_by" in self.vector:
            closed_at = self.driver.closed_at()
            assert closed_at is not None
            assert closed_at <= instant(self.vector["expect_closed_by"])


def play(vector: Json, driver: Driver) -> None:
    """Tell a timeline to `driver`; fails where the driver does anything else than the vector expects."""
    story = Story(vector, driver)
    story.begin()
    for event in vector["events"]:
        if event["kind"] == "start_fails":  # known from the beginning: a story lists it behind the time it concerns
            story.on_start_fails(event)
    for event in with_outages(vector["events"]):
        if event["kind"] != "start_fails":
            story.tell(event)
    story.end()


def with_outages(events: list[Json]) -> list[Json]:
    """The events, with the beginning of each outage told where it belongs: a story tells only how it ended."""
    told: list[Json] = []
    for event in events:
        if event["kind"] == "resume_after_outage":
            begins = {"at": event["last_processed"], "kind": "outage_begins"}
            later = (n for n, each in enumerate(told) if instant(each["at"]) > instant(begins["at"]))
            told.insert(next(later, len(told)), begins)
        told.append(event)
    return told


def wire_of(spec: Json) -> Json:
    """A vector's spec in the wire form."""
    wire: Json = {"dialect": "temporal"}
    if "intervals" in spec:
        wire["intervals"] = [
            {"every": f"{rule['every_s']}s", "offset": f"{rule.get('phase_s', 0)}s"} for rule in spec["intervals"]
        ]
    wire |= {name: spec[name] for name in ("calendars", "crons", "start", "end", "time_zone") if name in spec}
    if "exclude" in spec:
        wire["except"] = [{"calendar": calendar} for calendar in spec["exclude"]]
    if "jitter_s" in spec:
        wire["jitter"] = f"{spec['jitter_s']}s"
    return wire


def _overlap(event: Json) -> Overlap | None:
    policy = event.get("overlap")
    return None if policy in {None, "unspecified"} else Overlap(policy)


def _check_start(start: Started, wanted: Json, schedule_id: str) -> None:
    tolerance_ms = int(wanted.get("tolerance_s", 0) * 1000)
    assert 0 <= start.at - instant(wanted["at"]) <= tolerance_ms
    for name in ("last_completion_result", "last_failure"):
        if name in wanted:
            assert getattr(start, name) == wanted[name]
    attributes = wanted.get("search_attributes", {})
    if attributes:
        assert attributes["TemporalScheduledById"] == schedule_id
        assert attributes["TemporalScheduledStartTime"] == to_iso(start.nominal_at)


def _check(facts: Facts, name: str, value: Any) -> None:
    match name:
        case "running":
            assert list(facts.running) == value
        case "notes_contain":
            assert all(part in facts.notes for part in value)
        case "future_action_times_count":
            assert len(facts.future_action_times) == value
        case "future_action_times_min":
            assert len(facts.future_action_times) >= value
        case "first_future_action_after":
            assert facts.future_action_times[0] > instant(value)
        case _ if name.endswith("_min"):
            assert getattr(facts, name.removesuffix("_min")) >= value
        case _:
            assert getattr(facts, name) == value
