-- How attempts ended in each pool, added up by workers, for the charts of a dashboard. Older code writes no rows.
-- oldest code: 17

create table pool_activity (
    tenant   text not null,
    -- Its name without the app's.
    pool     text not null,
    -- When the ten minutes of a row begin.
    at       integer not null,
    -- The worker that wrote it: so no two meet in a row.
    source   text not null,
    ended    integer not null,
    failed   integer not null,
    canceled integer not null,
    retried  integer not null,
    -- How many came how late: numbers by bucket, as JSON.
    late     text,
    primary key (tenant, pool, at, source)
) without rowid, strict;
create index pool_activity_at on pool_activity (at);
