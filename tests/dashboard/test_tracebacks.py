"""What a page shows of a traceback: the user's frames, the code around the failed line, the exceptions of a chain."""

import traceback
from collections.abc import Callable

from evertick.dashboard.markup.tracebacks import FRAMES_SHOWN, trace_of


def charge(amount: int) -> None:
    # Above the failed line.
    if amount < 0:
        raise ValueError(f"{amount} is no amount")
    # Below it.


def bill(amount: int) -> None:
    charge(amount)


def wrap(amount: int) -> None:
    try:
        bill(amount)
    except ValueError as error:
        raise RuntimeError("the bill was not paid") from error


def bill_all(amount: int) -> None:
    errors = list[Exception]()
    for each in (amount, amount - 1):
        try:
            bill(each)
        except ValueError as error:
            errors.append(error)
    raise ExceptionGroup("the bills were not paid", errors)


def text_of(function: Callable[[int], None], value: int) -> str:
    try:
        function(value)
    except Exception as error:
        return "".join(traceback.format_exception(error))
    raise AssertionError("it raises")


def test_the_way_to_the_error_is_shown_with_the_code_around_it() -> None:
    [block] = trace_of(text_of(bill, -1), {__file__}).blocks
    assert [each.function for each in block.frames] == ["text_of", "bill", "charge"]
    assert block.frames[-2].source[0] == ("charge(amount)", False)
    last = block.frames[-1]
    shown = [code.strip() for _, code in last.around]
    assert shown[:5] == [
        "def charge(amount: int) -> None:",
        "# Above the failed line.",
        "if amount < 0:",
        'raise ValueError(f"{amount} is no amount")',
        "# Below it.",
    ]
    assert dict(last.around)[int(last.line)].strip().startswith("raise ValueError")
    assert block.error == "ValueError: -1 is no amount"


def test_code_that_the_app_does_not_declare_or_that_was_changed_is_not_read() -> None:
    text = text_of(bill, -1)
    assert trace_of(text, {"/etc/passwd"}).blocks[0].frames[-1].around == ()
    changed = text.replace("raise ValueError(f", "raise KeyError(f")
    assert trace_of(changed, {__file__}).blocks[0].frames[-1].around == ()


def test_the_exceptions_of_a_chain_are_shown_in_their_order() -> None:
    cause, last = trace_of(text_of(wrap, -1), {__file__}).blocks
    assert cause.error == "ValueError: -1 is no amount"
    assert cause.then == "The above exception was the direct cause of the following exception"
    assert last.error == "RuntimeError: the bill was not paid"
    assert last.frames[-1].function == "wrap"


def test_the_exceptions_of_a_group_follow_it() -> None:
    group, *inner = trace_of(text_of(bill_all, -1), {__file__}).blocks
    assert group.error == "ExceptionGroup: the bills were not paid (2 sub-exceptions)"
    assert [each.function for each in group.frames] == ["text_of", "bill_all"]
    assert [each.error for each in inner] == ["ValueError: -1 is no amount", "ValueError: -2 is no amount"]
    assert all(each.frames[-1].function == "charge" and each.frames[-1].around for each in inner)


def test_of_many_frames_the_last_are_shown_and_the_others_counted() -> None:
    frames = "".join(f'  File "/srv/app.py", line {n}, in f{n}\n    f{n + 1}()\n' for n in range(FRAMES_SHOWN + 4))
    found = trace_of(f"Traceback (most recent call last):\n{frames}ValueError: no\n")
    assert [each.function for each in found.blocks[0].frames] == [f"f{n}" for n in range(4, FRAMES_SHOWN + 4)]
    assert found.others == 4


def test_text_that_is_no_traceback_has_no_frames() -> None:
    assert trace_of("it was lost").blocks == ()
