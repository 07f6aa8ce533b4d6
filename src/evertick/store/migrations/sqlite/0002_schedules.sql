-- Schedules, their ledger, what their runs report, and their history.

alter table jobs add column schedule text;
alter table jobs add column stop integer not null default 0;

create table schedules (
    tenant       text    not null,
    id           text    not null,
    kind         text    not null,
    spec         text    not null,
    target       text    not null,
    function     text    not null,
    state        text    not null,
    status       text    not null,
    note         text    not null,
    memo         text    not null,
    seen_until   integer not null,
    wake_at      integer,
    next_at      integer,
    last_at      integer,
    last_result  text,
    last_failure text,
    version      integer not null,
    revision     integer not null,
    created_at   integer not null,
    updated_at   integer not null,
    primary key (tenant, id)
) without rowid, strict;

-- What an evaluator must look at next. Schedules without a wake-up are not in it.
create index schedules_wake on schedules (wake_at, tenant, id) where wake_at is not null;
-- Lists by next time, those without one last.
create index schedules_next on schedules (tenant, coalesce(next_at, 9223372036854775807), id);

create table occurrences (
    tenant      text    not null,
    schedule_id text    not null,
    nominal_at  integer not null,
    origin      text    not null,
    request     text    not null,
    actual_at   integer not null,
    fate        text    not null,
    reason      text    not null,
    detail      text    not null,
    decided_at  integer not null,
    run_id      text,
    job_id      text,
    started_at  integer,
    ended_at    integer,
    outcome     text,
    primary key (tenant, schedule_id, nominal_at, origin, request)
) without rowid, strict;

-- The ledger of all schedules by time.
create index occurrences_by_time on occurrences (tenant, nominal_at);
-- What retention may remove.
create index occurrences_decided on occurrences (decided_at);

create table run_reports (
    job_id      text    not null primary key,
    tenant      text    not null,
    schedule_id text    not null,
    nominal_at  integer not null,
    origin      text    not null,
    request     text    not null,
    ended_at    integer not null,
    outcome     text    not null,
    result      text,
    message     text    not null
) without rowid, strict;

create index run_reports_by_schedule on run_reports (tenant, schedule_id, ended_at);

create table schedule_history (
    id          text    not null primary key,
    tenant      text    not null,
    schedule_id text    not null,
    at          integer not null,
    actor       text    not null,
    action      text    not null,
    detail      text    not null
) without rowid, strict;

create index schedule_history_by_schedule on schedule_history (tenant, schedule_id, id);
