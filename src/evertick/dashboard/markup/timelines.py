"""The timeline of a run: a lane for each step, over a common axis in percent, in which idle time is folded.

The axis is computed as on the command line (`evertick.rules.workflows.timeline`). The lanes are in a table whose other
columns have the same data as text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from markupsafe import Markup

from evertick.api.workflows import RunTimeline, TimedStep
from evertick.base.durations import length
from evertick.base.instants import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Instant, from_datetime
from evertick.base.records.workflows import CallKind
from evertick.dashboard.markup.times import Times
from evertick.rules.workflows.timeline import Axis, Span

WIDTH: Final = 100.0
FOLD: Final = 5.0
"""Width of a folded piece in percent."""
CHAR: Final = 1.2
"""Maximum width of a character of a label in percent."""
TICK: Final = 14.0
"""Minimum distance of two ticks in percent."""
LABEL_CHARS: Final = 44
LABELS: Final = {
    "": Markup('<text x="{}%" y="18">{}</text>'),
    "hi": Markup('<text x="{}%" y="18" class="hi">{}</text>'),
    "end": Markup('<text x="99.6%" y="18" text-anchor="end">{1}</text>'),
}
WAITING: Final = frozenset({CallKind.SLEEP, CallKind.TIMER, CallKind.EVENT})
"""Calls that only wait."""
STILL: Final = ("sleep", "slept", "ahead")
"""Bars that are thin and may be folded."""
NICE_MS: Final = (
    *(base * factor for factor in (1, 10, 100) for base in (1, 2, 5)),
    *(SECOND_MS * each for each in (1, 2, 5, 10, 15, 30)),
    *(MINUTE_MS * each for each in (1, 2, 5, 10, 15, 30)),
    *(HOUR_MS * each for each in (1, 2, 3, 6, 12)),
    *(DAY_MS * each for each in (1, 2, 7, 14, 30, 90, 365)),
)


class Bar(NamedTuple):
    """A part of a lane. `css`: a state, `wait` (queued, backing off), `sleep`, `slept` or `ahead` (yet to come)."""

    start: int
    end: int
    css: str


@dataclass(frozen=True, slots=True)
class Lanes:
    """A drawn timeline: its axis, and a lane for each step by its number."""

    axis: Markup
    lanes: dict[int, Markup]
    folds: bool
    """Whether any part is folded."""
    waits: bool
    """Whether any step was queued or backed off."""


def lanes(found: RunTimeline, times: Times, *, fold: bool = True) -> Lanes:
    """Draw the steps of a run; with `fold`, idle times are folded."""
    ended = None if found.run.completed_at is None else from_datetime(found.run.completed_at)
    bars = {step.step: _bars(step, times.now, ended) for step in found.steps}
    every = [bar for each in bars.values() for bar in each]
    spans = [Span(bar.start, bar.end, bar.css in STILL) for bar in every]
    axis = Axis(spans, WIDTH, FOLD if fold else 0.0)
    folds = Markup().join(
        _rect(piece.left, piece.right, 0, 28, Markup('fill="url(#fold)"')) for piece in axis.pieces if piece.folded
    )
    now = _now(axis.at(times.now)) if ended is None and every else Markup()
    return Lanes(
        axis=Markup('<svg aria-hidden="true">{}{}</svg>').format(
            Markup().join(
                _rect(piece.left, piece.right, 0, 24, Markup('fill="url(#fold)"'))
                for piece in axis.pieces
                if piece.folded
            ),
            _labels(axis, times, ended),
        ),
        lanes={step.step: _lane(axis, bars[step.step], _words(step), folds, now) for step in found.steps},
        folds=any(piece.folded for piece in axis.pieces),
        waits=any(bar.css == "wait" for bar in every),
    )


def together(steps: Sequence[TimedStep]) -> set[int]:
    """The numbers of steps that ran concurrently with another step."""
    found: set[int] = set()
    for before, step in pairwise(steps):
        if before.ended_at is None or step.started_at < before.ended_at:
            found |= {before.step, step.step}
    return found


def _bars(step: TimedStep, now: Instant, ended: Instant | None) -> list[Bar]:
    """The parts of a step's lane."""
    start = from_datetime(step.started_at)
    end = (ended or max(now, start)) if step.ended_at is None else from_datetime(step.ended_at)
    if step.kind in WAITING:
        ahead = from_datetime(step.due_at) if step.ended_at is None and step.due_at is not None else end
        return [
            Bar(start, end, "sleep" if step.ended_at is None else "slept"),
            *([Bar(end, ahead, "ahead")] if ended is None and ahead > end else []),
        ]
    if not step.attempts:
        is_queued = step.outcome == "running" and step.kind is not CallKind.WORKFLOW
        return [Bar(start, end, "wait" if is_queued else _css(step.outcome))]
    bars, at = [], start
    for attempt in step.attempts:
        if attempt.started_at is None:
            continue
        began = max(at, from_datetime(attempt.started_at))
        stopped = end if attempt.ended_at is None else max(began, from_datetime(attempt.ended_at))
        bars += [Bar(at, began, "wait")] if began > at else []
        bars.append(Bar(began, stopped, _css(attempt.outcome or "running")))
        at = stopped
    return bars + ([Bar(at, end, "wait")] if step.ended_at is None and end > at else [])


def _css(outcome: str) -> str:
    return {"success": "ok", "running": "running", "canceled": "skipped"}.get(outcome, "failed")


def _lane(axis: Axis, bars: Sequence[Bar], words: str, folds: Markup, now: Markup) -> Markup:
    drawn = [_drawn(axis, bar) for bar in bars]
    return Markup('<svg aria-hidden="true">{}{}{}{}</svg>').format(
        folds, Markup().join(drawn), _caption(axis, bars, words), now
    )


def _drawn(axis: Axis, bar: Bar) -> Markup:
    left, right = axis.at(bar.start), axis.at(bar.end)
    if bar.css in ("wait", "ahead"):
        return _rect(left, right, 12, 4, Markup('fill="url(#wait)"'))
    if bar.css in STILL:
        return _rect(left, right, 12, 4, Markup('class="{}"').format(bar.css))
    return _rect(left, right, 8, 12, Markup('rx="2" class="{}"').format(bar.css))


def _caption(axis: Axis, bars: Sequence[Bar], words: str) -> Markup:
    """Text next to a lane's bars: on their right if it fits, otherwise on their left, otherwise omitted."""
    left, right = axis.at(bars[0].start), axis.at(bars[-1].end)
    room = len(words) * CHAR + 1
    if right + room <= WIDTH:
        return Markup('<text x="{:.2f}%" y="18">{}</text>').format(right + 0.8, words)
    if left >= room:
        return Markup('<text x="{:.2f}%" y="18" text-anchor="end">{}</text>').format(left - 0.8, words)
    return Markup()


def _words(step: TimedStep) -> str:
    """The text next to a lane: the duration, and the error of earlier tries."""
    if step.held is not None:
        return step.held
    failed = [each for each in step.attempts if each.error is not None]
    took = "" if step.duration_ms is None else length(step.duration_ms)
    if failed and step.outcome == "success":
        kind = (failed[-1].error or {}).get("type", "")
        return f"{len(step.attempts)} tries, after {kind}"[:LABEL_CHARS]
    return took


def _rect(left: float, right: float, top: int, height: int, how: Markup) -> Markup:
    return Markup('<rect x="{:.2f}%" width="{:.2f}%" y="{}" height="{}" {}/>').format(
        min(left, 99.7), max(right - left, 0.3), top, height, how
    )


def _now(place: float) -> Markup:
    return Markup('<line x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="28" class="now"/>').format(place)


class _Label(NamedTuple):
    place: float
    text: str
    css: str = ""


def _labels(axis: Axis, times: Times, ended: Instant | None) -> Markup:
    """The labels of the axis, the most important first; labels that would overlap are omitted."""
    if not axis.pieces:
        return Markup()
    start, end = axis.pieces[0].start, axis.pieces[-1].end
    wanted = [_Label(0.0, times.clock(Instant(start), seconds=True))]
    if ended is None:
        wanted.append(_Label(axis.at(times.now) + 0.6, "now", "hi"))
    wanted += [
        _Label(piece.right + 0.8, f"idle {length(piece.end - piece.start)}") for piece in axis.pieces if piece.folded
    ]
    last = times.clock(Instant(end), seconds=False if end - start > DAY_MS else None)
    wanted.append(_Label(WIDTH - len(last) * CHAR, last, "end"))
    taken = [(piece.left, piece.right) for piece in axis.pieces if piece.folded]
    drawn = Markup()
    for label in (*wanted, *_ticks(axis)):
        right = label.place + len(label.text) * CHAR
        if right > WIDTH + 0.5 or any(left < right + 0.8 and label.place < other + 0.6 for left, other in taken):
            continue
        taken.append((label.place, right))
        drawn += LABELS[label.css].format(f"{label.place:.2f}", label.text)
    return drawn


def _ticks(axis: Axis) -> Iterable[_Label]:
    """Round durations since the start, up to the first fold."""
    pieces = axis.pieces
    first_fold = next((piece for piece in pieces if piece.folded), None)
    until = pieces[-1].end if first_fold is None else first_fold.start
    step = next((each for each in NICE_MS if each * axis.scale >= TICK), None)
    if step is None or not axis.scale:
        return
    start = pieces[0].start
    for n in range(1, int(WIDTH / TICK) + 2):
        if start + n * step < until:
            yield _Label(axis.at(start + n * step), f"+{length(n * step)}")
