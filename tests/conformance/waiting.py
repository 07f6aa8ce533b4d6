"""Waiting in an action that goes on when it is told that it was canceled."""

import asyncio
import contextlib


async def undeterred(seconds: float) -> None:
    """Wait that long, whatever the function is told meanwhile."""
    time = asyncio.get_running_loop().time
    until = time() + seconds
    while time() < until:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(until - time())
