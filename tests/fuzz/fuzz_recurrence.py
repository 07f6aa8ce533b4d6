"""Fuzz every parser of recurrence with atheris: an answer or an error of ours, never a foreign exception.

    python tests/fuzz/fuzz_recurrence.py --runs 1000000 --jobs 2

Exits with a status other than 0, and the offending input on the terminal, at the first foreign exception or at an
answer that breaks a promise: that `next` is later than what was asked, that a spec survives its wire form, that the
sentence of a sentence means the same, and that no input takes more than `SLOW_NS` of the processor.
"""

import argparse
import subprocess
import sys
import time

import atheris

with atheris.instrument_imports(include=["evertick"]):
    from evertick.base.errors import InvalidSpec
    from evertick.recurrence import compile_spec
    from evertick.recurrence.english.describe import describe
    from evertick.recurrence.english.meaning import meaning_of
    from evertick.recurrence.english.parser.sentence import FORMS, parse_sentence
    from evertick.recurrence.parse.cron import parse_cron
    from evertick.recurrence.parse.duration import parse_duration
    from evertick.recurrence.parse.moments import parse_moment
    from evertick.recurrence.parse.rrule import parse_recur
    from evertick.recurrence.spec.spec import Spec
    from evertick.recurrence.wire.reading import spec_from_wire, spec_to_wire
    from evertick.recurrence.zones.names import zone_from_data

INSTANTS = (-3_000_000_000, 0, 1_762_062_600, 1_900_000_000)
ZONES = ("UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia")
SLOW_NS = 200_000_000
"""The longest that one input may take of the processor, in nanoseconds: four times what is promised, because the code
runs instrumented here, on a machine that others use.
"""
PATIENCE = 4
WORDS = (
    *sorted({word for form in FORMS for word in form.replace(",", " ,").split()}),
    "except", "holidays", "until", "skipping", "both", "times", "in", "Germany", "31", "9999", "1e9", "(", ";", "week",
)  # fmt: skip
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")


def fuzz_cron(data: atheris.FuzzedDataProvider) -> None:
    line = data.ConsumeUnicodeNoSurrogates(60)
    ask(Spec(crons=(parse_cron(line),), time_zone=data.PickValueInList(list(ZONES))))


def fuzz_rrule(data: atheris.FuzzedDataProvider) -> None:
    text = data.ConsumeUnicodeNoSurrogates(80)
    rule = f"FREQ={data.PickValueInList(list(FREQUENCIES))};{text}" if data.ConsumeBool() else text
    recur = parse_recur(rule)
    if recur.count is not None and recur.count > 1_000:
        return  # counting is bounded, but a million inputs should not spend their time on it
    wire = {"rrules": [{"dtstart": "2020-02-29T09:30:15", "rrule": rule}]}
    ask(spec_from_wire({**wire, "time_zone": data.PickValueInList(list(ZONES))}))


def fuzz_wire(data: atheris.FuzzedDataProvider) -> None:
    names = ("second", "minute", "hour", "day_of_month", "month", "year", "dayOfWeek")
    calendar = {data.PickValueInList(list(names)): data.ConsumeUnicodeNoSurrogates(12) for _ in range(3)}
    wire = {
        "calendars": [calendar],
        "intervals": [data.ConsumeUnicodeNoSurrogates(12)] if data.ConsumeBool() else [],
        "except": [{"calendar": calendar}] if data.ConsumeBool() else [{"cron": data.ConsumeUnicodeNoSurrogates(20)}],
        "dialect": data.PickValueInList(["evertick", "temporal"]),
        "time_zone": data.PickValueInList([*ZONES, data.ConsumeUnicodeNoSurrogates(20)]),
    }
    ask(spec_from_wire(wire))


def fuzz_small(data: atheris.FuzzedDataProvider) -> None:
    text = data.ConsumeUnicodeNoSurrogates(40)
    for parse in (parse_duration, parse_moment):
        try:
            parse(text)
        except InvalidSpec:
            pass
    spec_from_wire({"rrules": [text]})


def fuzz_zone(data: atheris.FuzzedDataProvider) -> None:
    zone_from_data(data.ConsumeBytes(400))


def fuzz_sentence(data: atheris.FuzzedDataProvider) -> None:
    if data.ConsumeBool():
        words = [data.PickValueInList(list(WORDS)) for _ in range(data.ConsumeIntInRange(0, 40))]
        text = " ".join([*words, data.ConsumeUnicodeNoSurrogates(12)])
    else:
        text = data.ConsumeUnicodeNoSurrogates(200)
    spec = parse_sentence(text, data.PickValueInList([None, *ZONES]))
    if any(getattr(one, "resolved", ()) is None for one in spec.excludes):
        return  # holidays by name: looking them up is another package's work
    ask(spec)
    said = describe(spec)
    if not said.startswith("never") and len(said) < 4_000 and meaning_of(parse_sentence(said)) != meaning_of(spec):
        raise RuntimeError(f"{text!r} is {said!r}, which means something else")


TARGETS = (fuzz_cron, fuzz_rrule, fuzz_wire, fuzz_small, fuzz_zone, fuzz_sentence)


def ask(spec: Spec) -> None:
    """The promises: strictly later, strictly earlier, and the same spec out as in."""
    rule = compile_spec(spec)
    for instant in INSTANTS:
        following, previous = rule.next(instant), rule.prev(instant)
        if (following is not None and following <= instant) or (previous is not None and previous >= instant):
            raise RuntimeError(f"{spec}: next({instant}) = {following}, prev = {previous}")
    if spec_from_wire(spec_to_wire(spec)) != spec:
        raise RuntimeError(f"{spec} does not survive its wire form")


def one_input(raw: bytes) -> None:
    """One input: its first byte picks the parser. What seems slow is measured again before anybody complains."""
    spent = time_of(raw)
    if spent > SLOW_NS:
        raise RuntimeError(f"{raw!r} took {spent / 1e6:.0f} ms of the processor, {PATIENCE} times in a row")


def time_of(raw: bytes) -> int:
    """How long an input takes of the processor, in nanoseconds: the first time that is not slow, or the last one."""
    for _ in range(PATIENCE):
        begin = time.process_time_ns()
        try_once(raw)
        spent = time.process_time_ns() - begin
        if spent <= SLOW_NS:
            break
    return spent


def try_once(raw: bytes) -> None:
    data = atheris.FuzzedDataProvider(raw)
    try:
        TARGETS[data.ConsumeIntInRange(0, len(TARGETS) - 1)](data)
    except InvalidSpec:
        pass


def share(runs: int, seed: int, jobs: int) -> int:
    """Let processes try an equal part each, and say what they did; 1 if any of them found something."""
    command = [sys.executable, __file__, "--jobs", "0", "--runs", str(-(-runs // jobs)), "--seed"]
    children = [subprocess.Popen([*command, str(seed + number)]) for number in range(jobs)]
    failed = [child for child in children if child.wait()]
    print(f"{jobs} processes ran {runs} runs, {len(failed)} of them found something", flush=True)
    return int(bool(failed))


def main() -> None:
    """Run until `--runs` inputs were tried."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=100_000, help="how many inputs to try")
    parser.add_argument("--seed", type=int, default=1, help="where chance begins")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the inputs; 0: this one")
    options = parser.parse_args()
    if options.jobs > 0:
        sys.exit(share(options.runs, options.seed, options.jobs))
    atheris.Setup(
        [sys.argv[0], f"-runs={options.runs}", f"-seed={options.seed}", "-max_len=512", "-timeout=20", "-verbosity=0"],
        one_input,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
