-- The first schema: jobs, workers, documents with their index entries, and remembered calls.
-- Ids and keys compare by bytes (collate "C"): their order is their meaning. Rows of `jobs` are updated twice in
-- their lives, so pages keep room and vacuum comes early. Pages of `documents` keep room, too: a changed
-- document that stays on its page touches no index, where it would conflict with readers of its neighbours.

create table jobs (
    id           text     collate "C" not null primary key,
    tenant       text     collate "C" not null,
    kind         text     collate "C" not null,
    name         text     collate "C" not null,
    args         text     not null,
    state        text     collate "C" not null,
    requested_at bigint   not null,
    due_at       bigint   not null,
    created_at   bigint   not null,
    completed_at bigint,
    attempt      integer  not null default 0,
    failures     integer  not null default 0,
    crashes      integer  not null default 0,
    worker_id    text     collate "C",
    parent_id    text     collate "C",
    key          text     collate "C",
    retry        text,
    on_complete  text,
    result       text,
    error        text,
    logs         text,
    blocked      smallint not null default 0
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);

create index jobs_due on jobs (kind, tenant, due_at, id) where state = 'pending' and blocked = 0;
create index jobs_running on jobs (worker_id, id) where state = 'in_progress';
create index jobs_completed on jobs (completed_at) where completed_at is not null;
create unique index jobs_key on jobs (tenant, key) where key is not null and state in ('pending', 'in_progress');
create index jobs_blocked on jobs (name) where blocked = 1;

create table workers (
    id           text    collate "C" not null primary key,
    started_at   bigint  not null,
    leased_until bigint  not null,
    host         text    not null,
    pid          integer not null
);

create index workers_lease on workers (leased_until);

create table documents (
    tenant text collate "C" not null,
    id     text collate "C" not null,
    body   text not null,
    primary key (tenant, id)
) with (fillfactor = 80);

create table index_entries (
    tenant      text  collate "C" not null,
    index_name  text  collate "C" not null,
    key         bytea not null,
    document_id text  collate "C" not null,
    primary key (tenant, index_name, key, document_id)
);

create table document_indexes (
    tenant     text collate "C" not null,
    index_name text collate "C" not null,
    fields     text not null,
    primary key (tenant, index_name)
);

create table calls (
    tenant      text   collate "C" not null,
    key         text   collate "C" not null,
    name        text   not null,
    fingerprint text   not null,
    result      text   not null,
    created_at  bigint not null,
    primary key (tenant, key)
);

create index calls_created on calls (created_at);
