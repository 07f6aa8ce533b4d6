-- Open runs and waiting occurrences as rows: a tick writes what it changes, however many there are. What states of
-- earlier versions hold of them becomes rows when the schedule is next written.

create table open_occurrences (
    tenant      text    not null,
    schedule_id text    not null,
    nominal_at  integer not null,
    origin      text    not null,
    request     text    not null,
    waits       integer not null,
    position    integer not null,
    actual_at   integer not null,
    overlap     text    not null,
    run_id      text,
    reason      text,
    started_at  integer,
    stop        text,
    primary key (tenant, schedule_id, nominal_at, origin, request)
) without rowid, strict;

-- The oldest runs of a schedule, and what waits, in order.
create index open_occurrences_in_order on open_occurrences (tenant, schedule_id, waits, position);
