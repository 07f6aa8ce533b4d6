-- Scripts of tenants: drafts, published versions, what their runs used, what tenants may use, and values that runs keep.
-- Older code writes no rows.
-- oldest code: 31

create table scripts (
    tenant     text collate "C" not null,
    name       text collate "C" not null,
    language   text collate "C" not null,
    -- The draft: what the next version will be.
    source     text collate "C" not null,
    -- The JSON schema of the input; null takes any input.
    parameters text collate "C",
    note       text collate "C" not null,
    -- The version that runs; null until one is published.
    published  bigint,
    -- The number of the last version.
    versions   bigint not null,
    created_at bigint not null,
    updated_at bigint not null,
    primary key (tenant, name)
);

create table script_versions (
    tenant     text collate "C" not null,
    script     text collate "C" not null,
    version    bigint not null,
    language   text collate "C" not null,
    source     text collate "C" not null,
    digest     text collate "C" not null,
    parameters text collate "C",
    note       text collate "C" not null,
    created_at bigint not null,
    primary key (tenant, script, version)
);

create table script_runs (
    job_id      text collate "C" not null,
    -- 0 is a test of a script, which has no job. Of an attempt whose instance died there is no row; `deaths` of the next one counts it.
    attempt     bigint not null,
    tenant      text collate "C" not null,
    script      text collate "C" not null,
    version     bigint,
    schedule_id text collate "C",
    deaths      bigint not null,
    outcome     text collate "C" not null,
    -- The limit that was exceeded, if one was.
    exceeded    text collate "C",
    error       text collate "C",
    -- Whether the script was started: refused runs do not count for quotas.
    started     bigint not null,
    ended_at    bigint not null,
    waited_ms   bigint not null,
    cpu_ms      bigint not null,
    wall_ms     bigint not null,
    rss_kb      bigint not null,
    -- How often each host function was called, as JSON.
    host_calls  text collate "C" not null,
    -- How many writes were committed with the end.
    staged      bigint not null,
    isolation   text collate "C" not null,
    engine      text collate "C" not null,
    -- Whether it was the last of several runs over a limit, so that its schedule was paused.
    paused      smallint not null,
    primary key (job_id, attempt)
);
create index script_runs_by_script on script_runs (tenant, script, ended_at);
create index script_runs_by_time on script_runs (tenant, ended_at, started, cpu_ms);
create index script_runs_by_schedule on script_runs (tenant, schedule_id, ended_at) where schedule_id is not null;
create index script_runs_at on script_runs (ended_at);

create table script_plans (
    tenant text collate "C" not null primary key,
    -- The limits that differ from those of the app, as JSON.
    limits text collate "C" not null
);

create table script_values (
    tenant     text collate "C" not null,
    key        text collate "C" not null,
    value      text collate "C" not null,
    updated_at bigint not null,
    primary key (tenant, key)
);
