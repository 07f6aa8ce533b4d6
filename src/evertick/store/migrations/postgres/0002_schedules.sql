-- Schedules, their ledger, what their runs report, and their history.

alter table jobs add column schedule text;
alter table jobs add column stop smallint not null default 0;

create table schedules (
    tenant       text collate "C" not null,
    id           text collate "C" not null,
    kind         text collate "C" not null,
    spec         text collate "C" not null,
    target       text collate "C" not null,
    function     text collate "C" not null,
    state        text collate "C" not null,
    status       text collate "C" not null,
    note         text collate "C" not null,
    memo         text collate "C" not null,
    seen_until   bigint not null,
    wake_at      bigint,
    next_at      bigint,
    last_at      bigint,
    last_result  text,
    last_failure text,
    version      bigint not null,
    revision     bigint not null,
    created_at   bigint not null,
    updated_at   bigint not null,
    primary key (tenant, id)
);

-- What an evaluator must look at next. Schedules without a wake-up are not in it.
create index schedules_wake on schedules (wake_at, tenant, id) where wake_at is not null;
-- Lists by next time, those without one last.
create index schedules_next on schedules (tenant, coalesce(next_at, 9223372036854775807), id);

create table occurrences (
    tenant      text collate "C" not null,
    schedule_id text collate "C" not null,
    nominal_at  bigint not null,
    origin      text collate "C" not null,
    request     text collate "C" not null,
    actual_at   bigint not null,
    fate        text collate "C" not null,
    reason      text collate "C" not null,
    detail      text collate "C" not null,
    decided_at  bigint not null,
    run_id      text,
    job_id      text,
    started_at  bigint,
    ended_at    bigint,
    outcome     text,
    primary key (tenant, schedule_id, nominal_at, origin, request)
);

-- The ledger of all schedules by time.
create index occurrences_by_time on occurrences (tenant, nominal_at);
-- What retention may remove.
create index occurrences_decided on occurrences (decided_at);

create table run_reports (
    job_id      text collate "C" not null primary key,
    tenant      text collate "C" not null,
    schedule_id text collate "C" not null,
    nominal_at  bigint not null,
    origin      text collate "C" not null,
    request     text collate "C" not null,
    ended_at    bigint not null,
    outcome     text collate "C" not null,
    result      text,
    message     text collate "C" not null
);

create index run_reports_by_schedule on run_reports (tenant, schedule_id, ended_at);

create table schedule_history (
    id          text collate "C" not null primary key,
    tenant      text collate "C" not null,
    schedule_id text collate "C" not null,
    at          bigint not null,
    actor       text collate "C" not null,
    action      text collate "C" not null,
    detail      text collate "C" not null
);

create index schedule_history_by_schedule on schedule_history (tenant, schedule_id, id);
