"""Two releases of the shop: the example as it stands, and one that renames an argument and removes a function."""

import shutil
from pathlib import Path
from typing import Final

EXAMPLE: Final = Path(__file__).resolve().parents[2] / "examples" / "shop"

# A killed worker's jobs are given back sooner, so that the trial need not wait.
SHORT_LEASE: Final = (
    ("from evertick import ActionCtx, App, MutationCtx, Retry\n",
     "from datetime import timedelta\n\nfrom evertick import ActionCtx, App, MutationCtx, Retry, Settings\n"),
    ("database_url=ADDRESS)", "database_url=ADDRESS, settings=Settings(lease=timedelta(seconds=3)))"),
)  # fmt: skip
SECOND_JOBS: Final = (
    ("order_id: int, email: str)", "order_id: int, address: str)"),
    ("email=email", "email=address"),
    ('run_after(0, send_mail, email, f"Your', 'run_after(0, deliver, address, f"Your'),
    ("@app.action\n", '@app.action(aliases=["shop.jobs.send_mail"])\n'),
    ("async def send_mail(", "async def deliver("),
)
SECOND_WEB: Final = (
    ("import app, ask_for_review, remind", "import app, remind"),
    ("remind, order.id, email=order.email", "remind, order.id, address=order.email"),
    ("    await scheduler.run_after(REVIEW_AFTER, ask_for_review, order.id)\n", ""),
)


def write_releases(folder: Path) -> tuple[Path, Path]:
    """Both releases, each in a folder of its own."""
    first, second = folder / "release-1", folder / "release-2"
    for release in (first, second):
        shutil.copytree(EXAMPLE, release, ignore=shutil.ignore_patterns("__pycache__", "*.db*", "test_*"))
        _edit(release / "shop" / "jobs.py", SHORT_LEASE)
    jobs = second / "shop" / "jobs.py"
    text = jobs.read_text()
    start, end = text.index("@app.mutation\ndef ask_for_review"), text.index("@app.action")
    jobs.write_text(text[:start] + text[end:])
    _edit(jobs, SECOND_JOBS)
    _edit(second / "shop" / "web.py", SECOND_WEB)
    return first, second


def _edit(file: Path, edits: tuple[tuple[str, str], ...]) -> None:
    text = file.read_text()
    for old, new in edits:
        assert text.count(old) == 1, f"{file.name} does not have {old!r} once"
        text = text.replace(old, new)
    file.write_text(text)
