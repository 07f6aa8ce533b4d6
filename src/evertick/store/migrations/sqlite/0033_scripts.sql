-- Scripts of tenants: drafts, published versions, what their runs used, what tenants may use, and values that runs keep.
-- Older code writes no rows.
-- oldest code: 31

create table scripts (
    tenant     text not null,
    name       text not null,
    language   text not null,
    -- The draft: what the next version will be.
    source     text not null,
    -- The JSON schema of the input; null takes any input.
    parameters text,
    note       text not null,
    -- The version that runs; null until one is published.
    published  integer,
    -- The number of the last version.
    versions   integer not null,
    created_at integer not null,
    updated_at integer not null,
    primary key (tenant, name)
) strict, without rowid;

create table script_versions (
    tenant     text not null,
    script     text not null,
    version    integer not null,
    language   text not null,
    source     text not null,
    digest     text not null,
    parameters text,
    note       text not null,
    created_at integer not null,
    primary key (tenant, script, version)
) strict;

create table script_runs (
    job_id      text not null,
    -- 0 is a test of a script, which has no job. Of an attempt whose instance died there is no row; `deaths` of the next one counts it.
    attempt     integer not null,
    tenant      text not null,
    script      text not null,
    version     integer,
    schedule_id text,
    deaths      integer not null,
    outcome     text not null,
    -- The limit that was exceeded, if one was.
    exceeded    text,
    error       text,
    -- Whether the script was started: refused runs do not count for quotas.
    started     integer not null,
    ended_at    integer not null,
    waited_ms   integer not null,
    cpu_ms      integer not null,
    wall_ms     integer not null,
    rss_kb      integer not null,
    -- How often each host function was called, as JSON.
    host_calls  text not null,
    -- How many writes were committed with the end.
    staged      integer not null,
    isolation   text not null,
    engine      text not null,
    -- Whether it was the last of several runs over a limit, so that its schedule was paused.
    paused      integer not null,
    primary key (job_id, attempt)
) strict;
create index script_runs_by_script on script_runs (tenant, script, ended_at);
create index script_runs_by_time on script_runs (tenant, ended_at, started, cpu_ms);
create index script_runs_by_schedule on script_runs (tenant, schedule_id, ended_at) where schedule_id is not null;
create index script_runs_at on script_runs (ended_at);

create table script_plans (
    tenant text not null primary key,
    -- The limits that differ from those of the app, as JSON.
    limits text not null
) strict, without rowid;

create table script_values (
    tenant     text not null,
    key        text not null,
    value      text not null,
    updated_at integer not null,
    primary key (tenant, key)
) strict, without rowid;
