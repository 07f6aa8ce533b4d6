-- The schema. Ids and keys compare by bytes (collate "C"): their order is their meaning.
-- Times are milliseconds since the epoch, UTC. Texts that a program reads as a record are JSON (`base/records/stored.py`).
-- Indexes of lists end in an expression, (id || ''), so that PostgreSQL cannot take the primary key for them: it would read
-- all newer rows where it expects to meet a few of the wanted ones soon.


-- Jobs: unfinished and finished ones, and their attempts, arguments and logs.

-- Unfinished jobs. A job that ends moves to `history`. Rows are updated twice in their lives, so pages keep free
-- space and vacuum runs early.
create table jobs (
    id           text     collate "C" not null primary key,
    tenant       text     collate "C" not null,
    kind         text     collate "C" not null,
    name         text     collate "C" not null,
    -- Empty if they are longer than a kilobyte: then they are in `bodies`.
    args         text     not null,
    state        text     collate "C" not null,
    requested_at bigint   not null,
    -- When it may run; `requested_at` is when it was first scheduled to run.
    due_at       bigint   not null,
    created_at   bigint   not null,
    -- The number of attempts; how many failed; and how many lost their worker.
    attempt      integer  not null default 0,
    failures     integer  not null default 0,
    crashes      integer  not null default 0,
    -- The worker that runs it. A claimed job belongs to (worker_id, attempt).
    worker_id    text     collate "C",
    -- The job that scheduled it.
    parent_id    text     collate "C",
    -- At most one unfinished job of its tenant has this key.
    key          text     collate "C",
    retry        text,
    on_complete  text,
    error        text,
    -- The occurrence of a schedule for which it runs.
    schedule     text,
    -- 1: asked to stop, 2: asked to end by force.
    stop         smallint not null default 0,
    -- Null for the default pool.
    pool         text     collate "C",
    -- Of one function in one pool, computed from both (queue_of in base/ids.py): a worker reads only what it can run.
    queue        bigint   not null default 0,
    -- The stage of a pending job: waiting (for its time), ready, suspect (its workers died), paused, or held (its limit
    -- key is full).
    stage        text     collate "C" not null default 'waiting',
    priority     smallint not null default 0,
    -- due_at less a minute for each step of priority; jobs are claimed in its order.
    rank         bigint   not null default 0,
    -- The length of its arguments in bytes.
    size         integer  not null default 0,
    started_at   bigint,
    schedule_id  text     collate "C",
    -- Such as a customer: its pool runs a limited number of jobs with one key at a time.
    limit_key    text     collate "C",
    -- The trace context of the transaction that scheduled it; null unless traced.
    trace        text     collate "C"
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);

-- The claimed jobs of a worker, for when it dies.
create index jobs_running on jobs (worker_id, id) where state = 'in_progress';
-- At most one unfinished job has a key.
create unique index jobs_key on jobs (tenant, key) where key is not null and state in ('pending', 'in_progress');
-- Ready jobs.
create index jobs_ready on jobs (queue, tenant, rank, id) where state = 'pending' and stage = 'ready';
-- Jobs that wait for their time.
create index jobs_waiting on jobs (due_at, id) where state = 'pending' and stage = 'waiting';
-- Suspects; mostly empty.
create index jobs_suspect on jobs (due_at, id) where state = 'pending' and stage = 'suspect';
-- Lists of unfinished jobs, and how many a tenant has and how large they are, for its quotas. Lists of all functions are
-- read function by function.
create index jobs_by_name on jobs (tenant, name, (id || '')) include (size);
create index jobs_by_schedule on jobs (tenant, schedule_id, (id || '')) where schedule_id is not null;
create index jobs_by_parent on jobs (tenant, parent_id, (id || '')) where parent_id is not null;
-- Pending jobs with a limit key.
create index jobs_by_limit_key on jobs (stage, queue, tenant, limit_key, rank, id)
 where state = 'pending' and limit_key is not null;
-- Runs that no other run has called with `step.workflow`. Such a call is known by its completion, whose kind is "step"; a
-- name that stands before the kind has its quotes escaped.
create index jobs_roots on jobs (tenant, (id || ''))
 where kind = 'workflow'
   and coalesce(substr(on_complete, position('", "kind": "' in on_complete) + 12, 5), '') <> 'step"';

-- Arguments of more than a kilobyte. The job's own `args` is empty then.
create table bodies (
    id   text collate "C" not null primary key,
    args text not null
);

-- Finished jobs: rows are only appended and pruned.
create table history (
    id           text     collate "C" not null primary key,
    tenant       text     collate "C" not null,
    kind         text     collate "C" not null,
    name         text     collate "C" not null,
    state        text     collate "C" not null,
    requested_at bigint   not null,
    due_at       bigint   not null,
    created_at   bigint   not null,
    started_at   bigint,
    completed_at bigint   not null,
    attempt      integer  not null,
    failures     integer  not null,
    crashes      integer  not null,
    worker_id    text     collate "C",
    parent_id    text     collate "C",
    key          text     collate "C",
    schedule_id  text     collate "C",
    pool         text     collate "C",
    priority     smallint not null default 0,
    stop         smallint not null default 0,
    schedule     text,
    args         text     not null,
    result       text,
    error        text,
    retry        text,
    on_complete  text,
    limit_key    text     collate "C",
    -- The job as which it runs again.
    retried_as   text     collate "C"
);

-- Lists of finished jobs, the newest first within a state.
create index history_by_state on history (tenant, state, (id || ''));
create index history_by_name on history (tenant, name, state, (id || ''));
create index history_by_schedule on history (tenant, schedule_id, state, (id || '')) where schedule_id is not null;
create index history_by_parent on history (tenant, parent_id, state, (id || '')) where parent_id is not null;
-- Rows for the pruner.
create index history_completed on history (completed_at);
create index history_by_key on history (tenant, key, state, (id || '')) where key is not null;
-- Failed jobs by the time when they failed, and those that were not run again.
create index history_failed on history (tenant, completed_at) where state = 'failed';
-- Lists of runs of workflows, and of those that no other run has called, whatever other jobs lie between them.
create index history_runs on history (tenant, state, (id || '')) where kind = 'workflow';
create index history_roots on history (tenant, state, (id || ''))
 where kind = 'workflow'
   and coalesce(substr(on_complete, position('", "kind": "' in on_complete) + 12, 5), '') <> 'step"';
create index history_unretried on history (tenant, state, (id || ''))
 where state = 'failed' and retried_as is null;

-- Attempts that were followed by another one. The last attempt of a job stands in the job's own row.
create table attempts (
    job_id     text    collate "C" not null,
    attempt    integer not null,
    worker_id  text    collate "C" not null,
    started_at bigint,
    ended_at   bigint  not null,
    outcome    text    collate "C" not null,
    error      text,
    primary key (job_id, attempt)
);

create table logs (
    job_id    text     collate "C" not null,
    attempt   integer  not null,
    number    integer  not null,
    at        bigint   not null,
    level     text     collate "C" not null,
    text      text     not null,
    is_cut    smallint not null,
    -- For the list of lines across functions.
    tenant    text     collate "C",
    name      text     collate "C",
    stored_at bigint,
    primary key (job_id, attempt, number)
);

create index logs_stored on logs (tenant, stored_at, job_id, attempt, number);

-- How many jobs each function of a tenant has: this row and its changes together. A change is a row that is only
-- inserted, so that transactions which count the same function do not wait for each other, nor conflict.
create table job_counts (
    tenant     text   collate "C" not null,
    name       text   collate "C" not null,
    unfinished bigint not null,
    success    bigint not null,
    failed     bigint not null,
    canceled   bigint not null,
    -- How many failed ones run again.
    retried    bigint not null default 0,
    primary key (tenant, name)
);

-- Functions of which no job is left.
create index job_counts_empty on job_counts (tenant)
 where unfinished = 0 and success = 0 and failed = 0 and canceled = 0;

create table job_count_changes (
    tenant     text   collate "C" not null,
    name       text   collate "C" not null,
    unfinished bigint not null,
    success    bigint not null,
    failed     bigint not null,
    canceled   bigint not null,
    retried    bigint not null default 0
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- The results of mutations that were called with an idempotency key.
create table calls (
    tenant      text   collate "C" not null,
    key         text   collate "C" not null,
    name        text   not null,
    fingerprint text   not null,
    result      text   not null,
    created_at  bigint not null,
    primary key (tenant, key)
);

create index calls_created on calls (created_at);


-- Workers.

-- Workers that run, each with a lease that its heartbeat renews.
create table workers (
    id           text    collate "C" not null primary key,
    started_at   bigint  not null,
    leased_until bigint  not null,
    host         text    not null,
    pid          integer not null,
    -- The app and release of a worker, and the functions and pools that it serves.
    app          text    not null default '',
    release      text    not null default '',
    serves       text,
    -- The version of the schema that its code knows.
    code         integer not null default 0,
    -- Its time zone data: workers of one fleet should have the same.
    zone_data    text    collate "C" not null default ''
);

create index workers_lease on workers (leased_until);

-- How attempts ended, added up by workers, for the charts and lists of a dashboard.
create table activity (
    tenant   text   collate "C" not null,
    -- A function, whose rows are for ten minutes each; or empty for all functions, whose rows are for a minute each.
    name     text   collate "C" not null,
    at       bigint not null,
    -- The worker that wrote it: so no two write the same row.
    source   text   collate "C" not null,
    ended    bigint not null,
    failed   bigint not null,
    canceled bigint not null,
    retried  bigint not null,
    -- The spreads of lateness and duration: numbers by bucket, as JSON. Null for those of one function.
    late     text   collate "C",
    took     text   collate "C",
    primary key (tenant, name, at, source)
);

create index activity_at on activity (at);

-- How attempts ended in each pool, added up by workers, for the charts of a dashboard.
create table pool_activity (
    tenant   text   collate "C" not null,
    -- Its name without the app's.
    pool     text   collate "C" not null,
    -- When the ten minutes of a row begin.
    at       bigint not null,
    -- The worker that wrote it: so no two write the same row.
    source   text   collate "C" not null,
    ended    bigint not null,
    failed   bigint not null,
    canceled bigint not null,
    retried  bigint not null,
    -- The spread of lateness: numbers by bucket, as JSON.
    late     text   collate "C",
    primary key (tenant, pool, at, source)
);

create index pool_activity_at on pool_activity (at);


-- Limits.

-- The limits of each pool. Only pools with a limit have a row.
create table pool_limits (
    pool              text   collate "C" not null primary key,
    running           bigint,
    per_tenant        bigint,
    starts_per_minute bigint,
    paused            bigint not null default 0,
    -- The instant up to which the rate is used, in microseconds since the epoch.
    used_until_us     bigint not null default 0,
    -- The declaration of the pool in code.
    declared          text,
    -- How many jobs of one limit key.
    per_key           bigint,
    -- Why it is paused.
    note              text   not null default ''
);

-- The limits of each tenant. Only tenants with a limit have a row.
create table tenant_limits (
    tenant            text   collate "C" not null primary key,
    running           bigint,
    starts_per_minute bigint,
    jobs              bigint,
    argument_bytes    bigint,
    schedules         bigint,
    -- The instant up to which the rate is used, in microseconds since the epoch.
    used_until_us     bigint not null default 0
);


-- Documents of the app.

-- The documents of `ctx.db`. Pages keep free space: a changed document that stays on its page touches no index, where
-- it would conflict with readers of its neighbours.
create table documents (
    tenant text collate "C" not null,
    id     text collate "C" not null,
    body   text not null,
    primary key (tenant, id)
) with (fillfactor = 80);

-- Which declared indexes are built, and over which fields: for all tenants under the empty name.
create table document_indexes (
    tenant     text collate "C" not null,
    index_name text collate "C" not null,
    fields     text not null,
    primary key (tenant, index_name)
);

-- The entries of declared indexes.
create table index_entries (
    tenant      text  collate "C" not null,
    index_name  text  collate "C" not null,
    key         bytea not null,
    document_id text  collate "C" not null,
    primary key (tenant, index_name, key, document_id)
);


-- Schedules and their ledger.

create table schedules (
    tenant       text     collate "C" not null,
    id           text     collate "C" not null,
    kind         text     collate "C" not null,
    spec         text     collate "C" not null,
    target       text     collate "C" not null,
    function     text     collate "C" not null,
    state        text     collate "C" not null,
    status       text     collate "C" not null,
    note         text     collate "C" not null,
    memo         text     collate "C" not null,
    -- Up to where its times are judged, its next evaluation, and its next start.
    seen_until   bigint   not null,
    wake_at      bigint,
    next_at      bigint,
    last_at      bigint,
    last_result  text,
    last_failure text,
    version      bigint   not null,
    revision     bigint   not null,
    created_at   bigint   not null,
    updated_at   bigint   not null,
    -- The format of the row: code that does not know a newer one leaves the row to code that does.
    format       smallint not null default 1,
    time_zone    text     collate "C",
    -- Whether the run that ended last failed.
    failing      smallint not null default 0,
    -- Whether the last start came late.
    late         smallint not null default 0,
    -- When a time of it was last found missed.
    missed_at    bigint,
    primary key (tenant, id)
);

-- Due schedules. Those without a wake-up are not in it.
create index schedules_wake on schedules (wake_at, tenant, id) where wake_at is not null;
-- Lists by next time, those without one last, and by last time, with what their filters ask.
create index schedules_by_next on schedules (
    tenant, coalesce(next_at, 9223372036854775807), id, next_at, kind, status, function, time_zone, failing, late,
    missed_at
);
create index schedules_by_last on schedules (
    tenant, coalesce(last_at, -1), id, last_at, next_at, kind, status, function, time_zone, failing, late, missed_at
);
create index schedules_paused on schedules (tenant, id) where status = 'paused';
create index schedules_failing on schedules (tenant, id) where failing = 1;
create index schedules_late on schedules (tenant, id) where late = 1;
create index schedules_missed on schedules (tenant, missed_at, id)
 where missed_at is not null;
-- Lists by id, likewise.
create index schedules_in_order on schedules (tenant, (id || '')) include (
    id, kind, status, function, time_zone, failing, late, missed_at, next_at
);

-- Open runs and waiting occurrences as rows: an evaluation writes what it changes, however many there are.
create table open_occurrences (
    tenant      text     collate "C" not null,
    schedule_id text     collate "C" not null,
    nominal_at  bigint   not null,
    origin      text     collate "C" not null,
    request     text     collate "C" not null,
    waits       smallint not null,
    position    bigint   not null,
    actual_at   bigint   not null,
    overlap     text     collate "C" not null,
    run_id      text     collate "C",
    reason      text     collate "C",
    started_at  bigint,
    stop        text     collate "C",
    primary key (tenant, schedule_id, nominal_at, origin, request)
);

-- The oldest runs and the waiting occurrences of a schedule, in order.
create index open_occurrences_in_order on open_occurrences (tenant, schedule_id, waits, position);

-- The ledger: each nominal time with its outcome and the reason for it.
create table occurrences (
    tenant      text   collate "C" not null,
    schedule_id text   collate "C" not null,
    nominal_at  bigint not null,
    origin      text   collate "C" not null,
    request     text   collate "C" not null,
    actual_at   bigint not null,
    fate        text   collate "C" not null,
    reason      text   collate "C" not null,
    detail      text   collate "C" not null,
    decided_at  bigint not null,
    run_id      text,
    job_id      text,
    started_at  bigint,
    ended_at    bigint,
    outcome     text,
    primary key (tenant, schedule_id, nominal_at, origin, request)
);

-- Rows for the pruner.
create index occurrences_decided on occurrences (decided_at);
-- The ledger of all schedules by time, and by reason.
create index occurrences_in_order on occurrences (tenant, nominal_at, (schedule_id || ''));
create index occurrences_by_reason on occurrences (
    tenant, reason, nominal_at, (schedule_id || '')
);

-- How runs of schedules ended. The next evaluation of the schedule takes them.
create table run_reports (
    job_id      text   collate "C" not null primary key,
    tenant      text   collate "C" not null,
    schedule_id text   collate "C" not null,
    nominal_at  bigint not null,
    origin      text   collate "C" not null,
    request     text   collate "C" not null,
    ended_at    bigint not null,
    outcome     text   collate "C" not null,
    result      text,
    message     text   collate "C" not null
);

create index run_reports_by_schedule on run_reports (tenant, schedule_id, ended_at);

-- Who changed a schedule, when and how.
create table schedule_history (
    id          text   collate "C" not null primary key,
    tenant      text   collate "C" not null,
    schedule_id text   collate "C" not null,
    at          bigint not null,
    actor       text   collate "C" not null,
    action      text   collate "C" not null,
    detail      text   collate "C" not null,
    -- A schedule with the id of a deleted one continues its version.
    version     bigint
);

create index schedule_history_by_schedule on schedule_history (tenant, schedule_id, id);
-- The last change of a tenant's schedules.
create index schedule_history_newest on schedule_history (tenant, id);


-- Workflows.

-- The records of workflow runs, in addition to their jobs.
create table workflow_runs (
    run_id         text    collate "C" not null primary key,
    seed           text    not null,
    -- How often it continued as new.
    generation     integer not null default 0,
    -- The number of the call that started it in its parent.
    parent_seq     integer,
    progress       text,
    attributes     text,
    -- The run of which it is the restart.
    restarted_from text    collate "C"
) with (fillfactor = 80);

-- One row for each event of a run. Rows are only added.
create table workflow_journal (
    run_id     text    collate "C" not null,
    generation integer not null,
    position   integer not null,
    kind       text    collate "C" not null,
    seq        integer not null,
    name       text    not null,
    at         bigint  not null,
    call       text    collate "C",
    arguments  text    collate "C" not null default '',
    due_at     bigint,
    attempt    integer,
    result     text,
    error      text,
    sender     text    collate "C",
    primary key (run_id, generation, position)
);

-- Messages to runs. Rows that were taken stay as long as the run, so that their keys are known.
-- Ids of one run's messages increase for the same reason.
create table workflow_inbox (
    id       bigint  generated always as identity primary key,
    run_id   text    collate "C" not null,
    kind     text    collate "C" not null,
    name     text    not null,
    seq      integer not null,
    result   text,
    error    text,
    key      text    collate "C",
    sent_at  bigint  not null,
    taken_at bigint,
    -- The sender of an event.
    sender   text    collate "C"
);

create index workflow_inbox_waiting on workflow_inbox (run_id, id) where taken_at is null;
create unique index workflow_inbox_key on workflow_inbox (run_id, key) where key is not null;
-- For deleting. An expression, so that it is not read instead of workflow_inbox_waiting.
create index workflow_inbox_run on workflow_inbox ((run_id || ''));

-- The attributes by which lists find runs: a row for each. A value is JSON text.
create table workflow_attributes (
    tenant text collate "C" not null,
    name   text collate "C" not null,
    value  text collate "C" not null,
    run_id text collate "C" not null,
    primary key (tenant, name, value, run_id)
);

create index workflow_attributes_run on workflow_attributes (run_id);

-- The status of workflows. One without a row is active.
create table workflow_types (
    name       text   collate "C" not null primary key,
    status     text   collate "C" not null,
    changed_at bigint not null
);


-- Access.

-- Tokens of the HTTP API. Of a token's secret only a hash is kept.
create table access_tokens (
    id           text   collate "C" not null primary key,
    -- Null for a token of all tenants.
    tenant       text   collate "C",
    name         text   collate "C" not null,
    scope        text   collate "C" not null,
    -- SHA-256 of the secret, as hex digits: a secret of 256 random bits needs no slower hash.
    digest       text   collate "C" not null,
    created_at   bigint not null,
    created_by   text   collate "C" not null,
    expires_at   bigint,
    revoked_at   bigint,
    last_used_at bigint
);

create index access_tokens_by_tenant on access_tokens (tenant, id);

-- The audit log: what was changed by whom.
create table audit_log (
    -- Begins with the time, so ids are in the order of changes.
    id      text   collate "C" not null primary key,
    -- Null for changes that concern no single tenant, such as those of a pool.
    tenant  text   collate "C",
    at      bigint not null,
    actor   text   collate "C" not null,
    action  text   collate "C" not null,
    target  text   collate "C" not null,
    request text   collate "C" not null,
    before  text   collate "C",
    after   text   collate "C"
);

create index audit_log_by_tenant on audit_log (tenant, id);

-- Views of lists that people have saved.
create table saved_views (
    id         text   collate "C" not null primary key,
    tenant     text   collate "C" not null,
    page       text   collate "C" not null,
    name       text   collate "C" not null,
    owner      text   collate "C" not null,
    params     text   collate "C" not null,
    created_by text   collate "C" not null,
    created_at bigint not null,
    updated_at bigint not null
);

-- The names of an owner's views are different.
create unique index saved_views_by_name on saved_views (tenant, page, owner, name);


-- Scripts of tenants.

create table scripts (
    tenant     text   collate "C" not null,
    name       text   collate "C" not null,
    language   text   collate "C" not null,
    -- The draft: what the next version will be.
    source     text   collate "C" not null,
    -- The JSON schema of the input; null takes any input.
    parameters text   collate "C",
    note       text   collate "C" not null,
    -- The version that runs; null until one is published.
    published  bigint,
    -- The number of the last version.
    versions   bigint not null,
    created_at bigint not null,
    updated_at bigint not null,
    primary key (tenant, name)
);

create table script_versions (
    tenant     text   collate "C" not null,
    script     text   collate "C" not null,
    version    bigint not null,
    language   text   collate "C" not null,
    source     text   collate "C" not null,
    digest     text   collate "C" not null,
    parameters text   collate "C",
    note       text   collate "C" not null,
    created_at bigint not null,
    primary key (tenant, script, version)
);

-- The usage of script runs. An attempt whose instance died has no row; `deaths` of the next one counts it.
create table script_runs (
    job_id      text     collate "C" not null,
    -- 0 is a test of a script, which has no job.
    attempt     bigint   not null,
    tenant      text     collate "C" not null,
    script      text     collate "C" not null,
    version     bigint,
    schedule_id text     collate "C",
    deaths      bigint   not null,
    outcome     text     collate "C" not null,
    -- The limit that was exceeded, if one was.
    exceeded    text     collate "C",
    error       text     collate "C",
    -- Whether the script was started: refused runs do not count for quotas.
    started     bigint   not null,
    ended_at    bigint   not null,
    waited_ms   bigint   not null,
    cpu_ms      bigint   not null,
    wall_ms     bigint   not null,
    rss_kb      bigint   not null,
    -- How often each host function was called, as JSON.
    host_calls  text     collate "C" not null,
    -- How many writes were committed with the end.
    staged      bigint   not null,
    isolation   text     collate "C" not null,
    engine      text     collate "C" not null,
    -- Whether it was the last of several runs over a limit, so that its schedule was paused.
    paused      smallint not null,
    primary key (job_id, attempt)
);

create index script_runs_by_script on script_runs (tenant, script, ended_at);
create index script_runs_by_time on script_runs (tenant, ended_at, started, cpu_ms);
create index script_runs_by_schedule on script_runs (tenant, schedule_id, ended_at) where schedule_id is not null;
create index script_runs_at on script_runs (ended_at);

-- The limits of tenants.
create table script_plans (
    tenant text collate "C" not null primary key,
    -- The limits that differ from those of the app, as JSON.
    limits text collate "C" not null
);

-- Values of scripts.
create table script_values (
    tenant     text   collate "C" not null,
    key        text   collate "C" not null,
    value      text   collate "C" not null,
    updated_at bigint not null,
    primary key (tenant, key)
);


-- Gateways: other processes that own crons. The stored crons are a copy; the gateway's own are authoritative.

create table gateways (
    id            text   collate "C" not null primary key,
    tenant        text   collate "C" not null,
    name          text   collate "C" not null,
    -- SHA-256 of the gateway's secret, and of the one before, which is valid until `old_until`.
    secret        text   collate "C" not null,
    old_secret    text   collate "C",
    old_until     bigint not null,
    -- The number of the token with which the platform authenticates; the token is derived from it.
    generation    bigint not null,
    -- Whether the gateway must request a new secret and a new token.
    rotates       bigint not null,
    -- Where the platform reaches it; null if the gateway dials out.
    url           text   collate "C",
    runtime       text   collate "C" not null,
    version       text   collate "C" not null,
    instance_id   text   collate "C" not null,
    -- The process that this one has replaced: it cannot come back.
    former_id     text   collate "C" not null,
    status        text   collate "C" not null,
    -- JSON lists.
    warnings      text   collate "C" not null,
    capabilities  text   collate "C" not null,
    commands      text   collate "C" not null,
    registered_at bigint not null,
    last_seen_at  bigint not null,
    -- The digest of its crons from the gateway, and that of the copy; empty before the first.
    digest        text   collate "C" not null,
    copied_digest text   collate "C" not null,
    copied_at     bigint,
    -- Why the last sync failed.
    error         text   collate "C",
    -- When to sync again, and the number of the last sync: of two at a time the later one's copy counts.
    sync_at       bigint not null,
    syncs         bigint not null
);

create unique index gateways_by_name on gateways (tenant, name);
create unique index gateways_by_secret on gateways (secret);
create unique index gateways_by_old_secret on gateways (old_secret) where old_secret is not null;
create index gateways_to_sync on gateways (sync_at);

create table gateway_crons (
    tenant      text   collate "C" not null,
    gateway_id  text   collate "C" not null,
    cron_id     text   collate "C" not null,
    -- The cron as received from the gateway, as JSON.
    item        text   collate "C" not null,
    enabled     bigint not null,
    last_status text   collate "C",
    -- The next time; the greatest number if there is none.
    next_run_at bigint not null,
    -- When it was removed at the gateway.
    removed_at  bigint,
    primary key (gateway_id, cron_id)
);

create index gateway_crons_by_time on gateway_crons (tenant, next_run_at, gateway_id, cron_id);

-- Tokens with which gateways register, as SHA-256.
create table gateway_join_tokens (
    hash       text   collate "C" not null primary key,
    tenant     text   collate "C" not null,
    name       text   collate "C" not null,
    expires_at bigint not null
);

-- Requests to gateways that dial out.
create table gateway_requests (
    id         text   collate "C" not null primary key,
    gateway_id text   collate "C" not null,
    -- The request, as JSON.
    request    text   collate "C" not null,
    -- After it nobody takes the request, and nobody waits for its reply.
    deadline   bigint not null,
    taken_at   bigint,
    status     bigint,
    reply      text   collate "C"
);

create index gateway_requests_to_take on gateway_requests (gateway_id, id) where taken_at is null;
create index gateway_requests_by_deadline on gateway_requests (deadline);
