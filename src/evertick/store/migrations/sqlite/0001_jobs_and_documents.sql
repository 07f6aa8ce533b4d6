-- The first schema: jobs, workers, documents with their index entries, and remembered calls.
-- Clustered by their ids (`without rowid`): ids grow with time, so new rows go to the end.

create table jobs (
    id           text    not null primary key,
    tenant       text    not null,
    kind         text    not null,
    name         text    not null,
    args         text    not null,
    state        text    not null,
    requested_at integer not null,
    due_at       integer not null,
    created_at   integer not null,
    completed_at integer,
    attempt      integer not null default 0,
    failures     integer not null default 0,
    crashes      integer not null default 0,
    worker_id    text,
    parent_id    text,
    key          text,
    retry        text,
    on_complete  text,
    result       text,
    error        text,
    logs         text,
    blocked      integer not null default 0
) without rowid, strict;

-- What is claimed next. Running, finished and blocked jobs are not in it, so a claim never walks over them.
create index jobs_due on jobs (kind, tenant, due_at, id) where state = 'pending' and blocked = 0;
-- What a dead worker held.
create index jobs_running on jobs (worker_id) where state = 'in_progress';
-- What retention may remove.
create index jobs_completed on jobs (completed_at) where completed_at is not null;
-- A key names at most one unfinished job.
create unique index jobs_key on jobs (tenant, key) where key is not null and state in ('pending', 'in_progress');
-- Jobs whose function no worker knew.
create index jobs_blocked on jobs (name) where blocked = 1;

create table workers (
    id           text    not null primary key,
    started_at   integer not null,
    leased_until integer not null,
    host         text    not null,
    pid          integer not null
) without rowid, strict;

create index workers_lease on workers (leased_until);

create table documents (
    tenant text not null,
    id     text not null,
    body   text not null,
    primary key (tenant, id)
) without rowid, strict;

create table index_entries (
    tenant      text not null,
    index_name  text not null,
    key         blob not null,
    document_id text not null,
    primary key (tenant, index_name, key, document_id)
) without rowid, strict;

-- Which declared indexes are built, and over which fields.
create table document_indexes (
    tenant     text not null,
    index_name text not null,
    fields     text not null,
    primary key (tenant, index_name)
) without rowid, strict;

create table calls (
    tenant      text    not null,
    key         text    not null,
    name        text    not null,
    fingerprint text    not null,
    result      text    not null,
    created_at  integer not null,
    primary key (tenant, key)
) without rowid, strict;

create index calls_created on calls (created_at);
