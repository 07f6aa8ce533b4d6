"""Where a server listens."""

import errno
import os
import socket

from evertick.base.errors import Misuse


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises Misuse if the port is taken or the host is none of this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=1_024)
    except OSError as error:
        # Python adds the address to the text of a taken port, and with it says everything twice.
        taken = f"{os.strerror(errno.EADDRINUSE)}; choose another port" if error.errno == errno.EADDRINUSE else None
        raise Misuse(f"cannot listen at {host}:{port}: {taken or error.strerror or error}") from None
    # asyncio leaves it out for connections of such a socket; without it a reply can wait 40 ms for the client's kernel.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
