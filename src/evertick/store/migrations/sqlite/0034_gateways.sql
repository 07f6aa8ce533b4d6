-- Gateways: processes elsewhere that own crons. What is kept of their crons is a copy, never the truth.
-- Older code writes no rows.
-- oldest code: 31

create table gateways (
    id            text    not null primary key,
    tenant        text    not null,
    name          text    not null,
    -- SHA-256 of what the gateway proves itself with, and of the one before, which is valid until `old_until`.
    secret        text    not null,
    old_secret    text,
    old_until     integer not null,
    -- The number of the token with which the platform proves itself; the token is derived from it.
    generation    integer not null,
    -- Whether the gateway is to ask for a new secret and a new token.
    rotates       integer not null,
    -- Where the platform reaches it; null if the gateway dials out.
    url           text,
    runtime       text    not null,
    version       text    not null,
    instance_id   text    not null,
    -- The process that this one has replaced: it cannot come back.
    former_id     text    not null,
    status        text    not null,
    -- JSON lists.
    warnings      text    not null,
    capabilities  text    not null,
    commands      text    not null,
    registered_at integer not null,
    last_seen_at  integer not null,
    -- The digest of its crons as the gateway says, and that of the copy; empty before the first.
    digest        text    not null,
    copied_digest text    not null,
    copied_at     integer,
    -- Why the last sync failed.
    error         text,
    -- When to sync again, and the number of the last sync: of two at a time the later one's copy counts.
    sync_at       integer not null,
    syncs         integer not null
) strict, without rowid;
create unique index gateways_by_name on gateways (tenant, name);
create unique index gateways_by_secret on gateways (secret);
create unique index gateways_by_old_secret on gateways (old_secret) where old_secret is not null;
create index gateways_to_sync on gateways (sync_at);

create table gateway_crons (
    tenant      text    not null,
    gateway_id  text    not null,
    cron_id     text    not null,
    -- The cron as the gateway gave it, as JSON.
    item        text    not null,
    enabled     integer not null,
    last_status text,
    -- The next time; the greatest number if there is none.
    next_run_at integer not null,
    -- When it was not there any more.
    removed_at  integer,
    primary key (gateway_id, cron_id)
) strict, without rowid;
create index gateway_crons_by_time on gateway_crons (tenant, next_run_at, gateway_id, cron_id);

create table gateway_join_tokens (
    hash       text    not null primary key,
    tenant     text    not null,
    name       text    not null,
    expires_at integer not null
) strict, without rowid;

create table gateway_requests (
    id         text    not null primary key,
    gateway_id text    not null,
    -- The request, as JSON.
    request    text    not null,
    -- After it nobody takes the request, and nobody waits for its reply.
    deadline   integer not null,
    taken_at   integer,
    status     integer,
    reply      text
) strict, without rowid;
create index gateway_requests_to_take on gateway_requests (gateway_id, id) where taken_at is null;
create index gateway_requests_by_deadline on gateway_requests (deadline);
