"""The contract, asked over the network of a gateway that runs."""

from pathlib import Path

from evertick.gateway.conformance import check_gateway
from evertick.gateway_client import HttpSend
from tests.gateway.served import serving, token_of

MORE = """
[commands.greet]
argv = ["echo", "hello"]

[crons.nightly]
schedule = { type = "cron", expression = "0 3 * * *" }
action = { type = "command", name = "greet" }
"""


def test_our_own_gateway_keeps_the_contract(tmp_path: Path) -> None:
    with (
        serving(tmp_path, MORE) as gateway,
        HttpSend(gateway.url, token_of(tmp_path)) as send,
        HttpSend(gateway.url) as without_token,
        HttpSend(gateway.url, "wrong") as wrong,
    ):
        found = check_gateway(send, send_without_token=without_token, send_with_wrong_token=wrong)
    assert [check for check in found if check.result != "passed"] == []
    assert len(found) > 10
