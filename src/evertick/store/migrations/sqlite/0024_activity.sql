-- How attempts ended, added up by workers, for the charts and lists of a dashboard.
-- oldest code: 17

create table activity (
    tenant   text not null,
    -- A function, whose rows are for ten minutes each; or empty for all functions, whose rows are for a minute each.
    name     text not null,
    at       integer not null,
    -- The worker that wrote it: so no two meet in a row.
    source   text not null,
    ended    integer not null,
    failed   integer not null,
    canceled integer not null,
    retried  integer not null,
    -- How many came how late, and took how long: numbers by bucket, as JSON. Null for those of one function.
    late     text,
    took     text,
    primary key (tenant, name, at, source)
) without rowid, strict;
create index activity_at on activity (at);
