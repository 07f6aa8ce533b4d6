-- Tokens of the HTTP API, and the log of what was changed through it. Of a token's secret only a hash is kept.
-- oldest code: 17

create table access_tokens (
    id           text collate "C" not null primary key,
    -- Null for a token of all tenants.
    tenant       text collate "C",
    name         text collate "C" not null,
    scope        text collate "C" not null,
    -- SHA-256 of the secret, as hex digits: a secret of 256 random bits needs no slower hash.
    digest       text collate "C" not null,
    created_at   bigint not null,
    created_by   text collate "C" not null,
    expires_at   bigint,
    revoked_at   bigint,
    last_used_at bigint
);
create index access_tokens_by_tenant on access_tokens (tenant, id);

create table audit_log (
    -- Begins with the time, so ids are in the order of changes.
    id      text collate "C" not null primary key,
    -- Null for what concerns no single tenant, such as a pool.
    tenant  text collate "C",
    at      bigint not null,
    actor   text collate "C" not null,
    action  text collate "C" not null,
    target  text collate "C" not null,
    request text collate "C" not null,
    before  text collate "C",
    after   text collate "C"
);
create index audit_log_by_tenant on audit_log (tenant, id);
