-- Tokens of the HTTP API, and the log of what was changed through it. Of a token's secret only a hash is kept.
-- oldest code: 17

create table access_tokens (
    id           text not null primary key,
    -- Null for a token of all tenants.
    tenant       text,
    name         text not null,
    scope        text not null,
    -- SHA-256 of the secret, as hex digits: a secret of 256 random bits needs no slower hash.
    digest       text not null,
    created_at   integer not null,
    created_by   text not null,
    expires_at   integer,
    revoked_at   integer,
    last_used_at integer
) strict;
create index access_tokens_by_tenant on access_tokens (tenant, id);

create table audit_log (
    -- Begins with the time, so ids are in the order of changes.
    id      text not null primary key,
    -- Null for what concerns no single tenant, such as a pool.
    tenant  text,
    at      integer not null,
    actor   text not null,
    action  text not null,
    target  text not null,
    request text not null,
    before  text,
    after   text
) strict;
create index audit_log_by_tenant on audit_log (tenant, id);
