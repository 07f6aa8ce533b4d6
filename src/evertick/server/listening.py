"""Where a server listens, and with which certificate."""

import errno
import os
import socket
import ssl
from pathlib import Path

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


def check_pair(certificate: Path, key: Path) -> None:
    """Raise Misuse for a certificate and a key with which no HTTPS can be served."""
    for file in (certificate, key):
        try:
            file.read_bytes()
        except OSError as error:
            raise Misuse(f"{file} cannot be read: {error.strerror}") from None
    try:
        # Without a password of ours, OpenSSL would ask for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise Misuse(f"{key} is not the key of the certificate {certificate}") from None
        raise Misuse(
            f"{certificate} has to be a certificate and {key} a private key without a passphrase, both in PEM form"
        ) from None
