-- How attempts ended, added up by workers, for the charts and lists of a dashboard.
-- oldest code: 17

create table activity (
    tenant   text collate "C" not null,
    -- A function, whose rows are for ten minutes each; or empty for all functions, whose rows are for a minute each.
    name     text collate "C" not null,
    at       bigint not null,
    -- The worker that wrote it: so no two meet in a row.
    source   text collate "C" not null,
    ended    bigint not null,
    failed   bigint not null,
    canceled bigint not null,
    retried  bigint not null,
    -- How many came how late, and took how long: numbers by bucket, as JSON. Null for those of one function.
    late     text collate "C",
    took     text collate "C",
    primary key (tenant, name, at, source)
);
create index activity_at on activity (at);
