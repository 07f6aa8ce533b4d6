-- Open runs and waiting occurrences as rows: a tick writes what it changes, however many there are. What states of
-- earlier versions hold of them becomes rows when the schedule is next written.

create table open_occurrences (
    tenant      text collate "C" not null,
    schedule_id text collate "C" not null,
    nominal_at  bigint not null,
    origin      text collate "C" not null,
    request     text collate "C" not null,
    waits       smallint not null,
    position    bigint not null,
    actual_at   bigint not null,
    overlap     text collate "C" not null,
    run_id      text collate "C",
    reason      text collate "C",
    started_at  bigint,
    stop        text collate "C",
    primary key (tenant, schedule_id, nominal_at, origin, request)
);

-- The oldest runs of a schedule, and what waits, in order.
create index open_occurrences_in_order on open_occurrences (tenant, schedule_id, waits, position);
