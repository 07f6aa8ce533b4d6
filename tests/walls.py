"""How well this machine walls scripts in: what pages and programs should say of it."""

from evertick.app.scripts.running import sandbox
from evertick.sandbox import Language


def level(language: Language = Language.JAVASCRIPT) -> str:
    """The level of isolation that was probed here."""
    return sandbox().isolation(language).level.value
