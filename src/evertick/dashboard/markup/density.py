"""How many runs come, as bars: one for each few minutes, drawn here, so that it needs no script."""

from collections.abc import Callable, Sequence

from markupsafe import Markup

HEIGHT = 100
TOP = 16
"""Above the bars, for the number of the highest."""
BARS_A_LABEL = 3
SCHEDULES, JOBS = "k2", "k1"
"""The classes of the parts of a bar."""
LONG = 4
"""From so many characters on a number needs a wide bar beneath."""


def density(
    starts: Sequence[int], jobs: Sequence[int], label_of: Callable[[int], str], href_of: Callable[[int], str]
) -> Markup:
    """Bars of the numbers in `starts`, of schedules, with those in `jobs` upon them; each bar is a link.

    `label_of` and `href_of` are given the position of a bar.
    """
    both = [sum(each) for each in zip(starts, jobs, strict=True)]
    most, width = max(both, default=0) or 1, 100 / max(len(both), 1)
    drawn = [Markup('<path class="axis" d="M0 {}H4000"/>').format(TOP + part * (HEIGHT - TOP) / 4) for part in range(4)]
    highest = both.index(most) if most in both else -1
    for position, count in enumerate(both):
        x, height = position * width, count / most * (HEIGHT - TOP)
        upper = jobs[position] / most * (HEIGHT - TOP)
        parts = ((SCHEDULES, HEIGHT - height + upper, height - upper), (JOBS, HEIGHT - height, upper))
        bar = Markup().join(
            Markup('<rect class="{}" x="{:.2f}%" y="{:.1f}" width="{:.2f}%" height="{:.1f}"/>').format(
                css, x + 0.25, top, width - 0.5, high
            )
            for css, top, high in parts
            if high
        )
        hit = Markup('<rect class="hit" x="{:.2f}%" y="0" width="{:.2f}%" height="{}"/>').format(x, width, HEIGHT)
        words = f"{label_of(position)}: {_said(starts[position], jobs[position])}"
        drawn.append(Markup('<a href="{}" aria-label="{}">{}{}</a>').format(href_of(position), words, bar, hit))
        if count and (position == highest or count >= most / 2):
            number = f"{count:,}"
            css = "hi" if position == highest else "hi other long" if len(number) >= LONG else "hi other"
            drawn.append(_text(css, position, len(both), HEIGHT - height - 4, number))
        if position % BARS_A_LABEL == 0:
            css = "other" if position >= len(both) - 2 else ""
            drawn.append(_text(css, position, len(both), HEIGHT + 14, label_of(position)))
    drawn.append(Markup('<path class="axis" d="M0 100.5H4000"/>'))
    return Markup('<svg class="chart low" role="group" aria-label="Coming starts">{}</svg>').format(
        Markup().join(drawn)
    )


def _said(starts: int, jobs: int) -> str:
    """What a bar shows, in words."""
    due = f"{jobs:,} job{'' if jobs == 1 else 's'} due"
    return f"{starts:,} start{'' if starts == 1 else 's'}{f', {due}' if jobs else ''}" if starts or not jobs else due


def _text(css: str, position: int, bars: int, y: float, words: str) -> Markup:
    """Words at a bar: they begin where it begins, and those of the last two end where it ends, to be seen whole."""
    width = 100 / bars
    x, anchor = (position * width + 0.25, "start") if position < bars - 2 else ((position + 1) * width - 0.25, "end")
    place = (x, y, css, anchor, words)
    return Markup('<text x="{:.2f}%" y="{:.0f}" class="{}" text-anchor="{}">{}</text>').format(*place)


def crowd(starts: Sequence[int]) -> int | None:
    """The position of a bar in which so many runs start at once that it would help to spread them; None without one."""
    most = max(starts, default=0)
    others = (sum(starts) - most) / max(len(starts) - 1, 1)
    return starts.index(most) if most >= 100 and most >= 4 * others else None
