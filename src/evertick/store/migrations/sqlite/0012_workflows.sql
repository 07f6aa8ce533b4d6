-- Workflow runs: what they have beside their jobs. An earlier release cannot read jobs of the kind workflow, so it must not
-- go on beside one that writes them.

create table workflow_runs (
    run_id     text    not null primary key,
    seed       text    not null,
    generation integer not null default 0,
    parent_seq integer,
    progress   text
) without rowid, strict;

-- One row for each event of a run. Rows are only added.
create table workflow_journal (
    run_id     text    not null,
    generation integer not null,
    position   integer not null,
    kind       text    not null,
    seq        integer not null,
    name       text    not null,
    at         integer not null,
    call       text,
    arguments  text    not null default '',
    due_at     integer,
    attempt    integer,
    result     text,
    error      text,
    primary key (run_id, generation, position)
) without rowid, strict;

-- What runs are sent. Rows that were taken stay as long as the run, so that their keys are known. Therefore the ids of one
-- run's messages grow, although SQLite may use the id of a deleted row again.
create table workflow_inbox (
    id       integer not null primary key,
    run_id   text    not null,
    kind     text    not null,
    name     text    not null,
    seq      integer not null,
    result   text,
    error    text,
    key      text,
    sent_at  integer not null,
    taken_at integer
) strict;

create index workflow_inbox_waiting on workflow_inbox (run_id, id) where taken_at is null;
create unique index workflow_inbox_key on workflow_inbox (run_id, key) where key is not null;
create index workflow_inbox_run on workflow_inbox (run_id);
