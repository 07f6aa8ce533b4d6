-- How attempts ended in each pool, added up by workers, for the charts of a dashboard. Older code writes no rows.
-- oldest code: 17

create table pool_activity (
    tenant   text collate "C" not null,
    -- Its name without the app's.
    pool     text collate "C" not null,
    -- When the ten minutes of a row begin.
    at       bigint not null,
    -- The worker that wrote it: so no two meet in a row.
    source   text collate "C" not null,
    ended    bigint not null,
    failed   bigint not null,
    canceled bigint not null,
    retried  bigint not null,
    -- How many came how late: numbers by bucket, as JSON.
    late     text collate "C",
    primary key (tenant, pool, at, source)
);
create index pool_activity_at on pool_activity (at);
