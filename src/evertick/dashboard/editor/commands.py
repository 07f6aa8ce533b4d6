"""The options of `evertick schedule create` and `update` that do what a form does."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from evertick.app.schedules.definition import RUN_NAME
from evertick.dashboard.editor.drafts import OF_SPEC, Draft, Reading, differing

Options = dict[str, str | bool | Sequence[str] | None]

FLAGS: Final = {
    "overlap": "overlap_policy",
    "concurrency_limit": "concurrency",
    "catch_up": "catch_up",
    "catch_up_window": "catchup_window",
    "buffer_limit": "buffer_limit",
    "run_timeout": "run_timeout",
    "remaining_actions": "remaining_actions",
    "workflow_id": "workflow_id",
    "run_id_template": "run_id_template",
    "note": "notes",
    "memo": "memo",
    "retry": "retry",
}
"""The flag of each member of a draft that has one of its own."""
LIFTED: Final = {
    "run_timeout": "run-timeout",
    "remaining_actions": "remaining-actions", "workflow_id": "workflow-id", "retry": "retry", "note": "notes",
    "memo": "memo", "excepted": "except", "time_zone": "time-zone", "start": "start-time", "end": "end-time",
    "jitter": "jitter", "dialect": "dialect",
}  # fmt: skip
"""What `--unset` calls a member."""
OF_TIME: Final = {
    "time_zone": "time_zone",
    "start": "start_time",
    "end": "end_time",
    "jitter": "jitter",
    "dialect": "dialect",
}


def create_options(reading: Reading) -> Options:
    """The options that create the schedule that a form says."""
    draft, own = reading.draft, reading.own or reading.draft
    whole: dict[str, Any] = {name: value for name in ("dst", "time_zone_data") if (value := getattr(own, name))}
    anchored = [each for each in own.sources.get("intervals", ()) if "anchor" in each]
    if anchored:
        whole["intervals"] = anchored
    options = _times(own, reading.sentences) | {flag: getattr(own, name) for name, flag in OF_TIME.items()}
    if whole:
        options["spec"] = _json(whole)
    options |= {"function": draft.function or "NAME", "input": _json(draft.args) if draft.args else None}
    return options | _definition(draft, differing(Draft(), draft))


def update_options(before: Draft, reading: Reading) -> Options:
    """The options that make of one schedule what a form says; none if nothing changes."""
    draft, changed = reading.draft, differing(before, reading.draft)
    of_spec = [name for name in changed if name in OF_SPEC]
    options: Options = {}
    unset = [LIFTED[name] for name in changed if name in LIFTED and not getattr(draft, name)]
    if of_spec:
        if _needs_whole(draft, of_spec):
            options["spec"] = _json(draft.wire())
            unset = [name for name in unset if name not in {LIFTED[each] for each in of_spec if each in LIFTED}]
        else:
            own = reading.own or draft
            if "sources" in changed:
                options |= _times(own, reading.sentences)
            elif "excepted" in changed:
                options["except"] = _excepted(draft)
            options |= {flag: getattr(own, name) for name, flag in OF_TIME.items() if name in changed}
    if "function" in changed:
        options |= {"function": draft.function, "input": _json(draft.args)}
    elif "args" in changed:
        options["input"] = _json(draft.args)
    return options | _definition(draft, changed) | {"unset": unset}


def _needs_whole(draft: Draft, changed: list[str]) -> bool:
    """Whether the flags of times cannot say what changes, so that the whole spec is given."""
    anchored = any("anchor" in each for each in draft.sources.get("intervals", ()))
    of_sources = "sources" in changed and (anchored or not any(draft.sources.values()))
    return of_sources or "dst" in changed or "time_zone_data" in changed


def _times(own: Draft, sentences: Sequence[str]) -> Options:
    sources = own.sources
    return {
        "when": list(sentences),
        "cron": sources.get("crons"),
        "interval": [_interval(each) for each in sources.get("intervals", ()) if "anchor" not in each],
        "calendar": [_json(each) for each in sources.get("calendars", ())],
        "rrule": [_json(each) for each in sources.get("rrules", ())],
        "at": sources.get("times"),
        "except": _excepted(own),
    }


def _interval(wire: Mapping[str, str]) -> str:
    return f"{wire['every']}/{wire['offset']}" if wire.get("offset") else wire["every"]


def _excepted(draft: Draft) -> list[str]:
    """The exclusions; a single date as such."""
    return [each["dates"][0] if len(each.get("dates", ())) == 1 else _json(each) for each in draft.excepted]


def _definition(draft: Draft, changed: list[str]) -> Options:
    options: Options = {}
    for name, flag in FLAGS.items():
        value = getattr(draft, name)
        if name not in changed:
            continue
        if name == "run_id_template":
            options[flag] = value or RUN_NAME
        elif value not in (None, "", {}):
            options[flag] = _json(value) if isinstance(value, Mapping) else str(value)
    if "pause_on_failure" in changed:
        options["pause_on_failure" if draft.pause_on_failure else "no_pause_on_failure"] = True
    return options


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
