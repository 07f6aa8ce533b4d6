"""Tokens and the audit log in the store."""

from evertick.base.ids import AUDIT_PREFIX, TenantId
from evertick.base.records.access import AccessToken, AuditLine, Scope
from evertick.store.store import Store
from tests.store.rows import at

ACME = TenantId("acme")


def token(number: int, tenant: TenantId | None = ACME) -> AccessToken:
    """A token."""
    return AccessToken(
        f"token_{number:028x}", tenant, f"t{number}", Scope.EDIT, "digest", at(number), "app test", at(9_000)
    )


def line(number: int, tenant: TenantId | None = ACME) -> AuditLine:
    """A line of the log, written at `at(number)`."""
    line_id = f"{AUDIT_PREFIX}_{at(number):012x}{number:016x}"
    return AuditLine(line_id, tenant, at(number), "token t", "job.cancel", "job_1", "req_1", None, '{"a": 1}')


def test_tokens_are_kept_listed_used_and_revoked(store: Store) -> None:
    made = [token(1), token(2), token(3, None), token(4, TenantId("b")), token(5)]
    for each in made:
        assert store.read(lambda tx: tx.has_token_of_all_tenants()) is (each in made[3:])
        store.write(lambda tx, each=each: tx.add_token(each))

    assert store.read(lambda tx: tx.get_token(made[0].id)) == made[0]
    assert store.read(lambda tx: tx.get_token("token_x")) is None
    assert store.read(lambda tx: tx.list_tokens(ACME, after="", limit=2)) == made[:2]
    assert store.read(lambda tx: tx.list_tokens(ACME, after=made[1].id, limit=2)) == [made[4]]
    assert store.read(lambda tx: tx.list_tokens(None, after="", limit=10)) == made
    assert store.read(lambda tx: tx.list_tokens(None, after=made[3].id, limit=10)) == [made[4]]
    assert store.read(lambda tx: tx.has_token_of_all_tenants())

    store.write(lambda tx: tx.use_token(made[0].id, now=at(50)))
    assert store.write(lambda tx: tx.revoke_token(made[0].id, now=at(60)))
    assert not store.write(lambda tx: tx.revoke_token(made[0].id, now=at(70)))
    assert not store.write(lambda tx: tx.revoke_token("token_x", now=at(70)))
    assert store.read(lambda tx: tx.get_token(made[0].id)) == made[0]._replace(revoked_at=at(60), last_used_at=at(50))


def test_the_audit_log_is_read_backwards_and_pruned(store: Store) -> None:
    lines = [line(1), line(2, None), line(3), line(4, TenantId("b")), line(5)]
    for each in lines:
        store.write(lambda tx, each=each: tx.add_audit(each))

    assert store.read(lambda tx: tx.list_audit(None, before="", limit=10)) == lines[::-1]
    assert store.read(lambda tx: tx.list_audit(ACME, before="", limit=2)) == [lines[4], lines[2]]
    assert store.read(lambda tx: tx.list_audit(ACME, before=lines[2].id, limit=2)) == [lines[0]]

    assert store.write(lambda tx: tx.prune_audit(before=at(4), limit=2)) == 2
    assert store.write(lambda tx: tx.prune_audit(before=at(4), limit=2)) == 1
    assert store.read(lambda tx: tx.list_audit(None, before="", limit=10)) == [lines[4], lines[3]]
