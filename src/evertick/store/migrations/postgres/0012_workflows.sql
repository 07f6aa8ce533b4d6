-- Workflow runs: what they have beside their jobs. An earlier release cannot read jobs of the kind workflow, so it must not
-- go on beside one that writes them.

create table workflow_runs (
    run_id      text    collate "C" not null primary key,
    seed        text    not null,
    generation  integer not null default 0,
    parent_seq  integer,
    progress    text
) with (fillfactor = 80);

-- One row for each event of a run. Rows are only added.
create table workflow_journal (
    run_id     text    collate "C" not null,
    generation integer not null,
    position   integer not null,
    kind       text    collate "C" not null,
    seq        integer not null,
    name       text    not null,
    at         bigint  not null,
    call       text    collate "C",
    arguments  text    collate "C" not null default '',
    due_at     bigint,
    attempt    integer,
    result     text,
    error      text,
    primary key (run_id, generation, position)
);

-- What runs are sent. Rows that were taken stay, so that their keys are known.
create table workflow_inbox (
    id       bigint  generated always as identity primary key,
    run_id   text    collate "C" not null,
    kind     text    collate "C" not null,
    name     text    not null,
    seq      integer not null,
    result   text,
    error    text,
    key      text    collate "C",
    sent_at  bigint  not null,
    taken_at bigint
);

create index workflow_inbox_waiting on workflow_inbox (run_id, id) where taken_at is null;
create unique index workflow_inbox_key on workflow_inbox (run_id, key) where key is not null;
-- For deleting. An expression, so that it is not read instead of workflow_inbox_waiting.
create index workflow_inbox_run on workflow_inbox ((run_id || ''));
