"""Sentences: what describe writes is read back, so are its synonyms, and nothing is guessed."""

import sys
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from evertick.base.errors import InvalidSpec
from evertick.recurrence import compile_spec
from evertick.recurrence.english.describe import describe
from evertick.recurrence.english.meaning import meaning_of
from evertick.recurrence.english.parser.sentence import FORMS, TEXT_MAX, parse_sentence
from evertick.recurrence.parse.cron import parse_cron
from evertick.recurrence.spec import exclude
from evertick.recurrence.spec.sources import Interval
from evertick.recurrence.spec.spec import Dialect, Spec
from evertick.recurrence.wire.reading import spec_from_wire, spec_to_wire
from tests.recurrence.authors import specs
from tests.sampling import examples

SYNONYMS = [
    ("every weekday at 9am", "at 09:00 on weekdays"),
    ("weekdays at 9 am", "at 09:00 on weekdays"),
    ("Every Weekday at 09:00.", "at 09:00 on weekdays"),
    ("every day at noon", "at 12:00 every day"),
    ("daily at midnight", "at 00:00 every day"),
    ("noon every day", "at 12:00 every day"),
    ("every monday, wednesday and friday at 9am", "at 09:00 on Mondays, Wednesdays and Fridays"),
    ("every monday, wednesday, and friday at 9am", "at 09:00 on Mondays, Wednesdays and Fridays"),
    ("Monday to Saturday at 1:30, Berlin time", "at 01:30 on Mondays through Saturdays, Berlin time"),
    ("at 9:00 Mon-Sat", "at 09:00 on Mondays through Saturdays"),
    ("at 9:00 Mon\N{EN DASH}Fri", "at 09:00 on weekdays"),
    ("at 9:00 Monday - Friday", "at 09:00 on weekdays"),
    ("every hour from Monday to Saturday", "every hour on Mondays through Saturdays"),
    ("every day from tuesday to sunday at noon", "at 12:00 on Tuesdays through Sundays"),
    ("every Friday through Monday at 9am", "at 09:00 on Fridays through Mondays"),
    ("Saturday to Sunday at noon", "at 12:00 on weekends"),
    ("Sunday to Saturday at noon", "at 12:00 every day"),
    (
        "at 9am on Mon-Wed, Saturday and the first Sunday of the month",
        "at 09:00 on Mondays through Wednesdays, Saturdays and the first Sunday of every month",
    ),
    ("every day at noon except from Tuesday to Thursday", "at 12:00 every day, except on Tuesdays through Thursdays"),
    (
        "weekly on Monday to Wednesday at 9:00, starting 5 January 2026",
        "weekly on Monday through Wednesday at 09:00, starting 5 January 2026",
    ),
    ("every day at 9am and 5:30pm", "at 09:00 and 17:30 every day"),
    ("every 15 minutes", "every 15 minutes"),
    ("every 15 min", "every 15 minutes"),
    ("every other minute", "every 2 minutes"),
    ("hourly", "every hour"),
    ("every hour on weekdays", "every hour on weekdays"),
    ("every hour between 9am and 5pm on weekdays", "every hour from 09:00 through 17:00 on weekdays"),
    ("every 15 minutes on weekdays from 9:00 to 17:45", "every 15 minutes from 09:00 through 17:45 on weekdays"),
    ("last friday of the month at 17:00", "at 17:00 on the last Friday of every month"),
    ("first monday of the month at 10am", "at 10:00 on the first Monday of every month"),
    (
        "at 10:00 on the first and third Monday of the month",
        "at 10:00 on the first Monday and the third Monday of every month",
    ),
    ("on the 1st and 15th of every month at 9am", "at 09:00 on the 1st and 15th of every month"),
    ("monthly on the 1st at noon", "at 12:00 on the 1st of every month"),
    ("weekly on Monday at 9am", "at 09:00 on Mondays"),
    ("yearly on 1 April at 00:00", "at 00:00 on 1 April every year"),
    ("every January 1 at 9am", None),
    ("on January 1 every year at 9am", "at 09:00 on 1 January every year"),
    ("every Friday the 13th at noon", "at 12:00 every Friday the 13th"),
    ("every 2 hours from 8am until 6pm every day", "every 2 hours from 08:00 through 18:00"),
    ("every 90 minutes", "every 90 minutes"),
    ("every 24 hours", "every 24 hours, at 00:00 UTC"),
    ("every day at 09:00 UTC", "every day at 09:00 UTC"),
    ("every day at 9:00 except weekends", "at 09:00 every day, except on weekends"),
    (
        "every weekday at 9am except 24-26 december and holidays in Germany in Europe/Berlin",
        "at 09:00 on weekdays, except on 24 through 26 December every year, except holidays in Germany, Berlin time",
    ),
    ("every weekday at 9am except holidays in the US", "at 09:00 on weekdays, except holidays in the United States"),
    ("every weekday at 9am except holidays in New York", "at 09:00 on weekdays, except holidays in New York"),
    ("every weekday at 9am except holidays in Bayern", "at 09:00 on weekdays, except holidays in Bavaria"),
    ("every weekday at 9am except holidays in Thüringen", "at 09:00 on weekdays, except holidays in Thuringia"),
    (
        "every weekday at 9am except holidays in DE-MV and weekends",
        "at 09:00 on weekdays, except holidays in Mecklenburg-Western Pomerania, except on weekends",
    ),
    (
        "every weekday at 9am except holidays in Northern Ireland, London time",
        "at 09:00 on weekdays, except holidays in Northern Ireland, London time",
    ),
    ("every weekday at 9am except holidays in CA-QC", "at 09:00 on weekdays, except holidays in CA-QC"),
    ("every day at 9am, but except 2027-01-01", "at 09:00 every day, except 1 January 2027"),
    ("every weekday at 9am in New York", "at 09:00 on weekdays, New York time"),
    (
        "every other week on Monday at 09:00 starting 5 January 2026",
        "every 2 weeks on Mondays at 09:00, starting 5 January 2026",
    ),
    ("every 3 days starting 5 January 2026 at 09:00", "every 3 days at 09:00, starting 5 January 2026"),
    ("every day at 9am until 1 March 2027", "at 09:00 every day, ending 1 March 2027 at 23:59:59"),
    ("once, on 24 December 2026 at 09:00", "on 24 December 2026 at 09:00"),
    ("at 9am on December 24, 2026", "on 24 December 2026 at 09:00"),
    ("on 24 December 2026 9am", "on 24 December 2026 at 09:00"),
    ("every day at 9am with up to 30 seconds of jitter", "at 09:00 every day, delayed by up to 30 seconds"),
    ("every 5 minutes with up to 5 minutes of jitter", "every 5 minutes, delayed by up to 5 minutes"),
    (
        "every 5 minutes with up to 2 hours of jitter",
        "every 5 minutes, delayed by up to 2 hours but not past the next time",
    ),
    ("every 5 minutes, delayed by up to 2 hours but not past the next time, New York time",) * 2,
    ("only when triggered", "only when triggered"),
]


@pytest.mark.parametrize(("written", "understood"), [pair for pair in SYNONYMS if pair[1]])
def test_synonyms_are_understood_and_said_back_plainly(written: str, understood: str) -> None:
    assert describe(parse_sentence(written)) == understood


@pytest.mark.parametrize("form", FORMS)
def test_the_forms_that_messages_offer_are_understood(form: str) -> None:
    spec = parse_sentence(form)
    assert meaning_of(parse_sentence(describe(spec))) == meaning_of(spec)


UNCLEAR = [
    ("every weakday at 9am", "'weakday at 9am' is not understood after 'every'; did you mean 'weekday'"),
    ("every day at 9", "morning or evening"),
    ("at 09:00", "on which days"),
    ("every second Tuesday", "each second, or every other one"),
    ("every second Monday and Friday", "each second, or every other one"),
    ("every second Tuesday of the month", "each second, or every other one"),
    ("every second Sunday in March", "each second, or every other one"),
    ("every second January", "each second, or every other one"),
    ("every day", "at what time"),
    ("on weekdays", "at what time"),
    ("every other week on Monday at 09:00", "from which day on"),
    ("every 2 weeks", "from which day on"),
    ("every 3 days at 09:00", "from which day on"),
    ("every 90 minutes on weekdays", "cannot be limited"),
    ("every day at 9am 10 times", "from which day on"),
    ("weekly at 09:00", "on which day"),
    ("monthly on Monday at 09:00", "goes with days of the month"),
    ("every day on Mondays at 09:00", "contradict"),
    ("at 09:00 on 1 January", "every year"),
    ("on 24 December 2026", "time of day"),
    ("at 09:00 on 30 February 2026", "does not exist"),
    ("at 25:00 every day", "no time of day '25:00'"),
    ("at 13pm every day", "no 13 pm"),
    ("every weekday at 9am except holidays", "whose holidays"),
    (
        "every weekday at 9am except holidays in Atlantis",
        "'atlantis' is not a place with known holidays",
    ),
    ("every weekday at 9am except holidays in Atlantis, Berlin time", "the codes of a country and of a part of it"),
    ("every weekday at 9am except holidays in Bavaira and weekends", "did you mean 'bavaria'? write a country such as"),
    ("every weekday at 9am except holidays in Scottland, London time", "did you mean 'scotland'?"),
    ("every weekday at 9am except holidays in", "the sentence ends too early"),
    ("every day at 9am not in summer", "'not in summer' is not understood after 'every day at 9am'"),
    ("every day at 9am in Gotham", "'Gotham' is not understood after 'every day at 9am in'"),
    ("at 09:00 every day in June in July", "named twice"),
    ("every day at 9am in Berln", "did you mean 'berlin'"),
    ("at 09:00 Monday to Monday", "begin and end on the same day of the week; say 'every day'"),
    ("at 09:00 mon-fryday", "'mon-fryday' is not understood after 'at 09:00'"),
    ("at 09:00 Monday to", "ends too early after 'at 09:00 Monday to'"),
    ("at 09:00 on Mondays on Tuesdays", "'on Tuesdays' is not understood"),
    ("at 09:00 on the 20th Monday of the month", "no 20th"),
    ("at 09:00 every 2nd day of the month (1st, 2nd)", "1st, 3rd, 5th"),
    ("every 0 minutes", "at least one second"),
    ("every hour from 17:00 through 09:00", "end before they begin"),
    ("every 999999999 hours", "10,000 years"),
    ("twice a day", "'twice a day' is not understood"),
    ("at 09:00 every", "ends too early"),
    ("", "empty"),
    ("   ", "empty"),
    (",", "ends too early"),
]


@pytest.mark.parametrize(("sentence", "complaint"), UNCLEAR)
def test_what_is_unclear_is_refused_with_the_reason(sentence: str, complaint: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_sentence(sentence)
    assert complaint.lower() in str(refused.value).lower()


def test_a_message_offers_the_nearest_sentence() -> None:
    with pytest.raises(InvalidSpec, match="'every weekday at 9am'"):
        parse_sentence("every workday at 9am")


def test_a_sentence_without_a_zone_takes_the_one_it_is_given() -> None:
    assert parse_sentence("every weekday at 9am", zone="Europe/Berlin").time_zone == "Europe/Berlin"
    assert parse_sentence("every weekday at 9am, New York time", zone="Europe/Berlin").time_zone == "America/New_York"


def test_times_that_are_no_product_become_several_lines() -> None:
    lines = [cron.text for cron in parse_sentence("at 09:00, 12:30 and 17:00 on weekdays").crons]
    assert lines == ["0 9,17 * * 1-5", "30 12 * * 1-5"]


@pytest.mark.parametrize("written", [*FORMS, *(written for written, understood in SYNONYMS if understood)])
def test_what_is_read_can_be_stored(written: str) -> None:
    spec = parse_sentence(written)
    assert meaning_of(spec_from_wire(spec_to_wire(spec))) == meaning_of(spec)


def test_a_rule_says_no_more_than_it_must() -> None:
    wire = spec_to_wire(parse_sentence("every other week on Monday at 9am, starting 5 January 2026, 10 times"))
    assert wire == {"rrules": [{"dtstart": "2026-01-05T09:00:00", "rrule": "FREQ=WEEKLY;INTERVAL=2;COUNT=10;BYDAY=MO"}]}


def test_plain_intervals_stay_intervals_and_steps_of_the_hour_become_crons() -> None:
    assert parse_sentence("every 90 minutes").intervals == (Interval(every=5_400),)
    assert parse_sentence("every 20 minutes").crons == (parse_cron("*/20 * * * *"),)
    assert parse_sentence("every 7 days, on Mondays at 09:00 UTC").intervals == (
        Interval(every=604_800, offset=4 * 86_400 + 9 * 3_600),
    )


def test_a_date_alone_ends_with_its_day_in_the_zone_of_the_sentence() -> None:
    spec = parse_sentence("every hour, ending 1 March 2027, New York time")
    assert describe(spec) == "every hour, ending 1 March 2027 at 23:59:59, New York time"


# --- the promise --------------------------------------------------------------------------------------------


def is_speakable(spec: Spec, text: str) -> bool:
    """Whether the promise of `sentence` covers the spec; see its docstring."""
    counted = any(exrule.count for rrule in spec.rrules for exrule in rrule.exrules)
    alone = any(rrule.recur is None and rrule.exrules for rrule in spec.rrules)
    return not text.startswith("never") and len(text) <= TEXT_MAX and not counted and not alone


def noon_except(line: str, dialect: Dialect = Dialect.TEMPORAL) -> Spec:
    return Spec(crons=(parse_cron("0 12 * * *"),), excludes=(exclude.Cron(cron=parse_cron(line)),), dialect=dialect)


@examples(300, suppress_health_check=list(HealthCheck))
@given(specs())
@example(noon_except("* * * * * * 2101/1"))
@example(noon_except("* * * * * * 2102/1"))
@example(noon_except("* * * * * * 2102/1", Dialect.EVERTICK))
@example(noon_except("* * 1/2 * 0"))
@example(noon_except("* * * 1/2 * 0 2026", Dialect.EVERTICK))
def test_what_describe_writes_is_read_back_as_the_same(spec: Spec) -> None:
    """The same meaning, and so the same times."""
    try:
        compiled = compile_spec(spec)
    except InvalidSpec:
        return
    text = describe(spec)
    if not is_speakable(spec, text):
        return
    again = parse_sentence(text)
    assert meaning_of(again) == meaning_of(spec), text
    assert describe(again) == describe(parse_sentence(describe(again)))
    if not any(isinstance(exclusion, exclude.Holidays) for exclusion in spec.excludes):
        assert compile_spec(again).preview(8, 1_700_000_000) == compiled.preview(8, 1_700_000_000), text


def test_two_spellings_of_one_rule_mean_the_same() -> None:
    def meaning(*lines: str, zone: str | None = None) -> object:
        return meaning_of(Spec(crons=tuple(map(parse_cron, lines)), time_zone=zone))

    assert meaning("0 9 * * MON-FRI") == meaning("0 9 * * 1,2,3,4,5")
    assert meaning("0 9 * * *", "0 17 * * *") == meaning("0 9,17 * * *")
    assert meaning("*/30 * * * *") == meaning("0,30 * * * *") == meaning("0/30 * * * *")
    assert meaning("0 9 * * *", zone="Etc/UTC") == meaning("0 9 * * *")
    assert meaning("*/15 9 * * *", zone="Europe/Berlin") != meaning("0,15,30,45 9 * * *", zone="Europe/Berlin")
    assert meaning("0 0 13 * 5") != meaning("0 0 13 * +5")


def test_zone_data_of_its_own_has_no_meaning_to_compare() -> None:
    with pytest.raises(InvalidSpec, match="time zone data"):
        meaning_of(Spec(time_zone_data=b"TZif"))


# --- hostile text -------------------------------------------------------------------------------------------

HOSTILE = [
    "a" * 1_000_000, "every " * 600, "(" * 4_000, "at 09:00, " * 400, "at 09:00 every day, and " * 170,
    "the 1st, " * 450,
    "monday, " * 500, "except " * 500, "at 5 seconds past the minute, " * 100, "\x00" * 4_000, "\u0663 " * 2_000,
    "every \uff19 minutes", "1999-12-31T" * 300, "x " * 2_000, "except holidays in " + "x" * 4_000,
    "every 61 seconds from 00:00 through 23:59 on weekdays", "skipping every day " * 200,
    "at 09:00 on Mondays" + " falling on the 1st" * 200, "at 09:00 every day in " + "January, " * 440,
    "every day at 09:00, starting 5 January 2026" + ", skipping every day at 10:00" * 130,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_refused_or_read_with_bounded_work(text: str) -> None:
    """Counted in calls, so that a slow machine changes nothing: each call is far below a microsecond's worth."""
    parse_sentence("at 09:00 every day, New York time")  # the names of zones are read once
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        with suppress(InvalidSpec):  # some of them make sense
            parse_sentence(text)
    finally:
        sys.setprofile(before)
    assert calls < 60_000


@examples(200)
@given(st.text(max_size=200))
def test_any_text_is_an_error_of_ours_or_a_spec(text: str) -> None:
    try:
        spec = parse_sentence(text)
    except InvalidSpec:
        return
    assert isinstance(spec, Spec)


WORDS = sorted({word for form in FORMS for word in form.replace(",", " ,").split()} | {"starting", "skipping", "until"})


@examples(300)
@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_any_order_of_known_words_is_an_error_of_ours_or_compiles(text: str) -> None:
    try:
        spec = parse_sentence(text)
    except InvalidSpec:
        return
    said = describe(spec)
    assert said.startswith("never") or meaning_of(parse_sentence(said)) == meaning_of(spec)


@pytest.mark.parametrize("thing", [None, 5, b"every day", ["every day"]])
def test_what_is_no_text_is_refused(thing: object) -> None:
    with pytest.raises(InvalidSpec, match="must be text"):
        parse_sentence(thing)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["monthly 1 through", "every year on 1 to", "at 09:00 on the 24 through"])
def test_a_sentence_that_breaks_off_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec, match=r"ends too early|not understood"):
        parse_sentence(text)
