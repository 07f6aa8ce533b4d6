"""The platform's side of gateways: registration, health, copies of crons, and what becomes of an unreachable one."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from evertick.api.gateway_fleet import FetchedReply, FetchedRequest, Heartbeat, Registration
from evertick.app.gateways import connections
from evertick.app.gateways.syncing import AT_A_TIME, SyncLoop, sync
from evertick.base.errors import (
    Conflict,
    CronNotFound,
    GatewayNotFound,
    GatewayUnreachable,
    InvalidCron,
    Misuse,
    OutcomeUnknown,
    UnknownSecret,
)
from evertick.base.ids import TenantId
from evertick.base.instants import Instant
from evertick.store.postgres.transaction import PostgresTransaction
from evertick.store.sqlite.transaction import SqliteTransaction
from tests.gateways.conftest import BEGAN, Platform, cron

HOURLY = {"type": "cron", "expression": "0 * * * *"}
PROBE = {"type": "builtin", "name": "health_probe"}


def sync_round(platform: Platform) -> None:
    """Sync all gateways whose time it is."""

    async def until_none_is_due() -> None:
        syncs = SyncLoop(platform.app.environment)
        while True:
            await syncs.round()
            if not syncs._syncs:
                return
            await syncs.end()

    asyncio.run(until_none_is_due())


# -- registration and secrets


def test_a_join_token_registers_one_gateway_once_and_in_time(platform: Platform) -> None:
    gateways = platform.gateways()
    token, other = gateways.join_token("edge-1", expires_in=60).token, gateways.join_token("edge-2").token

    for text, name in (("evgj_nonsense", "edge-1"), ("", "edge-1"), (other, "edge-1")):
        with pytest.raises(UnknownSecret):
            gateways.joining.register(Registration(join_token=text, name=name, instance_id="i"))
    made = gateways.joining.register(Registration(join_token=token, name="edge-1", instance_id="i"))
    with pytest.raises(UnknownSecret):
        gateways.joining.register(Registration(join_token=token, name="edge-1", instance_id="i"))
    late = gateways.join_token("edge-3", expires_in=60).token
    platform.wait(60)
    with pytest.raises(UnknownSecret, match="expired"):
        gateways.joining.register(Registration(join_token=late, name="edge-3", instance_id="i"))

    assert made.access_token is None  # it dials out
    assert [each.name for each in gateways.list()] == ["edge-1"]


def test_no_secret_and_no_token_is_in_the_database(platform: Platform) -> None:
    made = platform.join()

    stored = repr(platform.row())
    assert made.secret not in stored
    assert made.access_token is not None
    assert made.access_token not in stored
    assert made.access_token == connections.access_token(made.gateway_id, 1)


def test_a_gateway_with_an_address_needs_the_key_of_the_platform(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("", "too short"):
        monkeypatch.setenv(connections.KEY_VARIABLE, key)
        with pytest.raises(Misuse, match=connections.KEY_VARIABLE):
            platform.join()
    assert not platform.gateways().list()
    platform.join(url=None)
    for url in ("ftp://edge", "edge:80", "http://user:secret@edge", "http://"):
        with pytest.raises(Misuse, match="address"):
            platform.join("edge-2", url=url)


def test_the_platform_calls_gateways_at_hosts_of_its_list_only(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(connections.HOSTS_VARIABLE, "*.test, 10.0.0.7:4500")
    platform.join()
    platform.join("edge-2", url="http://10.0.0.7:4500")
    for url in ("http://169.254.169.254", "http://10.0.0.7", "http://test", "https://edge.test:8443"):
        with pytest.raises(Misuse, match=f"does not call gateways at {url}; its {connections.HOSTS_VARIABLE} lists"):
            platform.join("edge-3", url=url)
    platform.gateways().check("edge-1")
    asked = len(platform.played["edge-1"].asked)

    monkeypatch.setenv(connections.HOSTS_VARIABLE, "")
    with pytest.raises(Misuse, match="lists ''"):
        platform.gateways().check("edge-1")

    assert platform.gateways().get("edge-1").health == "healthy", "it is what this process lacks"
    environment = platform.app.environment
    row = environment.store.read(lambda tx: tx.get_gateway("edge-1", tenant=TenantId("default")))
    assert row is not None
    sync(environment, row, is_server=True)
    assert "lists ''" in (platform.gateways().get("edge-1").reason or "")
    assert len(platform.played["edge-1"].asked) == asked


def test_a_rotated_secret_is_valid_for_ten_minutes_and_a_lost_reply_is_asked_for_again(platform: Platform) -> None:
    old = platform.join().secret
    joining = platform.gateways().joining
    platform.gateways().rotate("edge-1")
    assert platform.beat()

    lost = joining.rotate(old)
    assert platform.beat()  # still with the old secret: the reply has not come
    fresh = joining.rotate(old)
    platform.secrets["edge-1"] = fresh.secret
    assert not platform.beat()
    assert len({each.access_token for each in (lost, fresh)}) == 2
    with pytest.raises(UnknownSecret):
        joining.rotate(lost.secret)

    platform.secrets["edge-1"] = old
    platform.wait(599)
    assert platform.beat()
    joining.rotate(old)  # which does not lengthen the life of the old one
    platform.wait(1)
    with pytest.raises(UnknownSecret):
        platform.beat()


def test_a_process_that_ends_is_offline_at_once_and_the_end_of_an_older_one_changes_nothing(platform: Platform) -> None:
    secret = platform.join(instance_id="old").secret
    platform.beat(instance_id="new")
    joining = platform.gateways().joining

    assert not joining.deregister(secret, "old")
    assert platform.gateways().get("edge-1").health == "healthy"
    assert joining.deregister(secret, "new")
    platform.gateways().check("edge-1")
    assert platform.gateways().get("edge-1").health == "offline"
    assert platform.gateways().joining.heartbeat(secret, Heartbeat(instance_id="new")).superseded
    platform.beat(instance_id="next")
    assert platform.gateways().get("edge-1").health == "healthy"
    platform.gateways().remove("edge-1")
    with pytest.raises(UnknownSecret):
        platform.beat()


def test_a_process_that_a_later_one_has_replaced_does_not_come_back(platform: Platform) -> None:
    secret = platform.join(instance_id="old", url=None).secret
    joining = platform.gateways().joining
    assert joining.fetch(secret, "new", []) == (platform.row().id, [])

    found = joining.heartbeat(secret, Heartbeat(instance_id="old", status="degraded"))

    assert found.superseded
    assert (platform.row().instance_id, platform.row().status) == ("new", "healthy")


def test_a_gateway_is_of_one_tenant(platform: Platform) -> None:
    platform.join(tenant="acme")
    platform.played["edge-1"].crons = [cron()]
    acme, others = platform.gateways("acme"), platform.gateways("other")
    acme.check("edge-1")

    assert [each.cron.id for each in acme.crons().crons] == ["c1"]
    assert not others.list()
    assert not others.crons().crons
    for ask in (
        lambda: others.get("edge-1"), lambda: others.crons("edge-1"), lambda: others.cron("edge-1", "c1"),
        lambda: others.remove("edge-1"), lambda: others.rotate("edge-1"), lambda: others.run_cron("edge-1", "c1"),
        lambda: others.remove_cron("edge-1", "c1"), lambda: others.runs("edge-1", "c1"),
    ):  # fmt: skip
        with pytest.raises(GatewayNotFound):
            ask()
    platform.join(tenant="other")  # another one of the same name
    assert {platform.row("edge-1", "acme").id, platform.row("edge-1", "other").id} == {
        acme.get("edge-1").id, others.get("edge-1").id,
    }  # fmt: skip


# -- health


def test_health_follows_from_when_a_gateway_was_seen(platform: Platform) -> None:
    platform.join()
    gateways = platform.gateways()

    seen = []
    for seconds in (0, 29, 1, 34, 1):
        platform.wait(seconds)
        seen.append(gateways.get("edge-1").health)
    assert seen == ["healthy", "healthy", "degraded", "degraded", "offline"]

    platform.beat(status="degraded", warnings=("disk\x1b[31m full",))
    view = gateways.get("edge-1")
    assert (view.health, view.reason) == ("degraded", "disk [31m full")
    platform.beat()
    assert gateways.get("edge-1").health == "healthy"


# -- copies


def test_a_sync_asks_for_crons_only_if_they_changed(platform: Platform) -> None:
    platform.join()
    played, gateways = platform.played["edge-1"], platform.gateways()
    played.crons = [cron("a", 120), cron("b", 60), cron("off", enabled=False, next_run_at=None)]

    gateways.check("edge-1")
    assert [each.path for each in played.asked] == ["/v1/health", "/v1/crons"]
    assert [each.cron.id for each in gateways.crons().crons] == ["b", "a", "off"]

    played.asked.clear()
    platform.wait(10)
    view = gateways.check("edge-1")
    assert [each.path for each in played.asked] == ["/v1/health"]
    assert view.crons_at is not None
    assert view.crons_at.timestamp() * 1000 == BEGAN + 10_000

    played.crons = [cron("a", 120)]
    platform.beat()  # with another digest
    sync_round(platform)
    found = {each.cron.id: each.removed_at is not None for each in gateways.crons().crons}
    assert found == {"a": False, "b": True, "off": True}
    platform.wait(timedelta(days=1).total_seconds() + 1)
    platform.played["edge-1"].crons = [cron("a", 180)]
    gateways.check("edge-1")
    assert [each.cron.id for each in gateways.crons().crons] == ["a"]


def test_only_crons_that_changed_are_written_and_one_that_is_back_is_no_longer_removed(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.join()
    played, gateways = platform.played["edge-1"], platform.gateways()
    played.crons = [cron("a"), cron("b"), cron("c")]
    gateways.check("edge-1")

    written: list[str] = []

    def noting(run: Any) -> Any:
        def noted(self: Any, name: str, params: Any) -> Any:
            if name in ("put_gateway_cron", "note_removed_cron"):
                written.append(params["cron_id"])
            return run(self, name, params)

        return noted

    for kind in (SqliteTransaction, PostgresTransaction):
        monkeypatch.setattr(kind, "_run", noting(kind._run))
    played.crons = [cron("a"), cron("b", 90)]
    gateways.check("edge-1")
    assert written == ["b", "c"]

    written.clear()
    played.crons = [cron("a"), cron("b", 90), cron("c")]
    gateways.check("edge-1")
    assert written == ["c"]
    assert {each.cron.id: each.removed_at for each in gateways.crons().crons} == {"a": None, "b": None, "c": None}


def test_an_old_list_does_not_replace_a_newer_one(platform: Platform) -> None:
    platform.join()
    played, gateways = platform.played["edge-1"], platform.gateways()
    played.crons = [cron("old")]

    def meanwhile() -> None:
        played.crons = [cron("new")]
        gateways.check("edge-1")

    played.during = meanwhile
    gateways.check("edge-1")

    assert [each.cron.id for each in gateways.crons().crons] == ["new"]


def test_crons_are_paged_by_time_and_a_cursor_of_elsewhere_is_refused(platform: Platform) -> None:
    for name in ("edge-1", "edge-2"):
        platform.join(name)
        platform.played[name].crons = [cron(f"{name}-{number}", 60 * (number % 3)) for number in range(5)]
        platform.gateways().check(name)
    gateways = platform.gateways()

    found, after = [], None
    while True:
        page = gateways.crons(after=after, limit=3)
        found += [each.cron.id for each in page.crons]
        if (after := page.next) is None:
            break
    assert len(found) == len(set(found)) == 10
    assert found == [each.cron.id for each in gateways.crons().crons]
    assert [each.cron.id for each in gateways.crons("edge-2", limit=2).crons] == ["edge-2-0", "edge-2-3"]
    for cursor in ("x", "e30=", "WzEsMiwzXQ=="):
        with pytest.raises(Misuse, match="cursor"):
            gateways.crons(after=cursor)


def test_an_unchanged_fleet_costs_one_small_request_for_each_gateway(platform: Platform) -> None:
    for number in range(20):
        platform.join(f"edge-{number}")
        platform.played[f"edge-{number}"].crons = [cron(f"c{each}") for each in range(10)]
    sync_round(platform)
    for played in platform.played.values():
        played.asked.clear()

    platform.wait(60)
    sync_round(platform)

    assert [[each.path for each in played.asked] for played in platform.played.values()] == [["/v1/health"]] * 20
    sync_round(platform)  # none is due
    assert all(len(played.asked) == 1 for played in platform.played.values())


# -- changes


def test_a_change_is_made_at_the_gateway_and_shown_at_once(platform: Platform) -> None:
    platform.join()
    gateways = platform.gateways()

    made = gateways.add_cron("edge-1", "purge", schedule=HOURLY, action=PROBE)
    assert gateways.cron("edge-1", "purge").cron.id == made.id
    assert gateways.run_cron("edge-1", "purge", key="k") == gateways.run_cron("edge-1", "purge", key="k")
    gateways.remove_cron("edge-1", "purge")
    assert gateways.cron("edge-1", made.id).removed_at is not None
    with pytest.raises(CronNotFound):
        gateways.cron("edge-1", "purge")

    for schedule, action, words in (
        ({"type": "cron"}, PROBE, "needs expression"),
        ({"type": "nonsense"}, PROBE, "schedule"),
        (HOURLY, {"type": "command"}, "needs name"),
        (HOURLY, {"type": "command", "argv": ["sh"]}, "argv"),
        ({"type": "interval", "every_ms": 0}, PROBE, "every_ms"),
    ):
        with pytest.raises(InvalidCron, match=words):
            gateways.add_cron("edge-1", "k", schedule=schedule, action=action)


def test_what_is_asked_of_an_offline_gateway_is_refused_and_not_queued(platform: Platform) -> None:
    platform.join()
    platform.join("edge-2", url=None)
    gateways = platform.gateways()
    gateways.add_cron("edge-1", "a", schedule=HOURLY, action=PROBE)
    platform.wait(65)
    played = platform.played["edge-1"]
    played.asked.clear()
    played.is_down = True

    for name in ("edge-1", "edge-2"):
        for ask in (
            lambda name=name: gateways.add_cron(name, "b", schedule=HOURLY, action=PROBE),
            lambda name=name: gateways.update_cron(name, "a", enabled=False),
            lambda name=name: gateways.remove_cron(name, "a"),
            lambda name=name: gateways.run_cron(name, "a"),
            lambda name=name: gateways.runs(name, "a"),
        ):
            with pytest.raises(GatewayUnreachable, match=r"offline .* nothing is queued"):
                ask()
    played.is_down = False
    platform.beat()
    assert not played.asked
    assert len(played.crons) == 1
    platform.beat("edge-2")
    assert not gateways.joining.fetch(platform.secrets["edge-2"], "i1", [])[1]


def test_why_a_sync_failed_is_shown(platform: Platform) -> None:
    platform.join()
    gateways = platform.gateways()
    gateways.check("edge-1")
    platform.played["edge-1"].is_down = True

    view = gateways.check("edge-1")
    assert (view.health, view.reason) == ("degraded", "edge-1 does not reply")
    platform.played["edge-1"].is_down = False
    assert gateways.check("edge-1").health == "healthy"


# -- gateways that dial out


class Fetching(threading.Thread):
    """A gateway that dials out, and replies with what `reply` returns; None is no reply."""

    def __init__(self, platform: Platform, status: int | None = 200) -> None:
        super().__init__(daemon=True)
        self.platform, self.status = platform, status
        self.fetched: list[FetchedRequest] = []
        self.ends = threading.Event()

    def run(self) -> None:
        joining, secret = self.platform.gateways().joining, self.platform.secrets["edge-1"]
        while not self.ends.wait(0.01):
            _, found = joining.fetch(secret, "i1", [])
            self.fetched += found
            if found and self.status is not None:
                played = self.platform.played["edge-1"]
                for each in found:
                    _, body = played._reply(connections.Request(each.method, each.path, each.body, each.headers))
                    text = connections.json.dumps(body)
                    joining.fetch(secret, "i1", [FetchedReply(id=each.id, status=self.status, body=text)])

    def __enter__(self) -> "Fetching":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ends.set()
        self.join()


def test_a_gateway_that_dials_out_is_used_in_the_same_way(platform: Platform) -> None:
    platform.join(url=None)
    platform.played["edge-1"].crons = [cron("a")]
    gateways = platform.gateways()

    with Fetching(platform):
        assert gateways.check("edge-1").health == "healthy"
        assert gateways.crons().crons[0].cron.id == "a"
        assert gateways.run_cron("edge-1", "a", key="k") == "run-0"


@pytest.mark.parametrize("is_fetched", [False, True])
def test_a_request_that_nobody_replies_to_ends_with_its_deadline(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, is_fetched: bool
) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.3)
    platform.join(url=None)
    gateways = platform.gateways()
    client = connections.client_of(platform.app.environment, platform.row())

    if is_fetched:
        with Fetching(platform, status=None) as fetching, pytest.raises(OutcomeUnknown):
            client.remove("a")
        [request] = fetching.fetched
        joining, secret = gateways.joining, platform.secrets["edge-1"]
        joining.fetch(secret, "i1", [FetchedReply(id=request.id, status=204)])  # too late; nobody waits for it
    else:
        with pytest.raises(GatewayUnreachable, match="did not fetch"):
            client.remove("a")
    assert not gateways.joining.fetch(platform.secrets["edge-1"], "i1", [])[1]


def test_requests_are_fetched_by_the_current_process_of_their_gateway_alone(platform: Platform) -> None:
    secret = platform.join(url=None).secret
    platform.join("edge-2", url=None)
    row, now = platform.row(), platform.clock.now()
    store, joining = platform.app.environment.store, platform.gateways().joining
    store.write(
        lambda tx: tx.add_gateway_request(
            "r1", row.id, '{"method":"GET","path":"/v1/health"}', deadline=Instant(now + 9)
        )
    )

    platform.beat(instance_id="i2")
    with pytest.raises(Conflict, match="later process"):
        joining.fetch(secret, "i1", [])
    assert not joining.fetch(platform.secrets["edge-2"], "i1", [FetchedReply(id="r1", status=200, body="forged")])[1]
    assert [each.id for each in joining.fetch(secret, "i2", [])[1]] == ["r1"]
    assert not joining.fetch(secret, "i2", [])[1]
    joining.fetch(platform.secrets["edge-2"], "i1", [FetchedReply(id="r1", status=200, body="forged")])
    ended = store.write(lambda tx: tx.end_gateway_request("r1"))
    assert ended is not None
    assert ended.status is None
    with pytest.raises(Misuse, match="has an address"):
        platform.join("edge-3")
        joining.fetch(platform.secrets["edge-3"], "i1", [])


def test_a_gateway_that_is_gone_meanwhile_stops_nothing(platform: Platform) -> None:
    platform.join()
    row = platform.row()
    platform.gateways().remove("edge-1")

    sync(platform.app.environment, row)

    assert not platform.gateways().list()
    assert not platform.gateways().crons().crons


def test_a_gateway_that_does_not_reply_delays_no_other(platform: Platform) -> None:
    for number in range(AT_A_TIME + 4):
        platform.join(f"edge-{number:02}")
    may_end, slow = threading.Event(), platform.played["edge-00"]
    slow.before = may_end.wait

    async def rounds() -> None:
        syncs = SyncLoop(platform.app.environment)
        while sum(bool(each.asked) for each in platform.played.values()) < AT_A_TIME + 3:
            await syncs.round()
            await asyncio.sleep(0.01)
        assert not slow.asked
        may_end.set()
        await syncs.end()

    asyncio.run(rounds())
    assert slow.asked


# -- hostile gateways


@pytest.mark.parametrize(
    "reply",
    [
        (400, {"code": "timeout", "detail": "\x1b[31mlate"}),
        (400, {"code": "function_failed", "error": "x", "detail": "y"}),
        (503, {"code": "what", "detail": "busy"}),
        (200, {"status": "healthy"}),
        (200, []),
        (500, "no JSON object"),
    ],
)
def test_whatever_one_gateway_replies_others_are_synced(platform: Platform, reply: tuple[int, Any]) -> None:
    platform.join("edge-1")
    platform.join("edge-2")
    platform.played["edge-1"]._reply = lambda request: reply  # type: ignore[method-assign]

    sync_round(platform)

    bad, good = platform.gateways().list()
    assert (bad.health, good.health) == ("degraded", "healthy")
    assert bad.reason is not None
    assert bad.reason.isprintable()
    assert platform.played["edge-2"].asked


@pytest.mark.parametrize(
    "changes",
    [{"next_run_at": "2026-01-01T00:00:00"}, {"id": "a\0b"}, {"last_error": "\ud800"}, {"name": "x" * 100_000}],
)
def test_a_list_that_cannot_be_kept_is_the_trouble_of_its_gateway(platform: Platform, changes: dict[str, Any]) -> None:
    platform.join("edge-1")
    platform.join("edge-2")
    platform.played["edge-1"].crons = [cron(cron_id="a") | changes]

    sync_round(platform)

    bad, good = platform.gateways().list()
    assert good.health == "healthy"
    assert bad.reason or platform.gateways().crons("edge-1").crons


def test_a_join_token_is_in_no_audit_log(platform: Platform) -> None:
    lines: list[Any] = []

    def audited(work: Any, action: str, target: str) -> Any:
        def noted(transaction: Any) -> Any:
            found = work(transaction)
            lines.append((action, target, found))
            return found

        return noted

    made = platform.gateways().audited_by(audited).join_token("edge-1")

    assert made.token not in repr(lines)
    assert lines
    platform.gateways().joining.register(Registration(join_token=made.token, name="edge-1", instance_id="i"))


def test_a_change_of_unknown_outcome_is_in_the_audit_log(platform: Platform) -> None:
    platform.join()
    lines: list[str] = []

    def audited(work: Any, action: str, target: str) -> Any:
        lines.append(target)
        return work

    played = platform.played["edge-1"]
    played.crons = [cron("a")]
    gateways = platform.gateways().audited_by(audited)
    played._reply = lambda request: (200, "garbage")  # type: ignore[method-assign]

    with pytest.raises(OutcomeUnknown):
        gateways.remove_cron("edge-1", "a")
    played.is_down = True
    with pytest.raises(GatewayUnreachable):
        gateways.remove_cron("edge-1", "a")

    assert lines == ["edge-1/a (its outcome is unknown)"]


def test_what_no_request_can_have_is_refused_before_it_is_sent(platform: Platform) -> None:
    platform.join()
    platform.played["edge-1"].crons = [cron("a")]
    gateways = platform.gateways()
    for text in ("\xe9", "", "a\nb", 'x"', "k" * 201):
        with pytest.raises(Misuse):
            gateways.update_cron("edge-1", "a", revision=text, enabled=False)
    with pytest.raises(Misuse):
        gateways.run_cron("edge-1", "a", key="\xe9")
    with pytest.raises(CronNotFound):
        gateways.remove_cron("edge-1", "x" * 70_000)
    for name in ("my edge", "\xfc", "..", ""):
        with pytest.raises(Misuse):
            gateways.join_token(name)
    with pytest.raises(Misuse, match="address"):
        platform.join("edge-2", url="http://edge.test/admin?x=")
