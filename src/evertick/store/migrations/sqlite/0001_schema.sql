-- The schema. Most tables are clustered by their keys (`without rowid`): ids grow with time, so new rows go to the end.
-- Times are milliseconds since the epoch, UTC. Texts that a program reads as a record are JSON (`base/records/stored.py`).


-- Jobs: unfinished and finished ones, and their attempts, arguments and logs.

-- Unfinished jobs. A job that ends moves to `history`.
create table jobs (
    id           text    not null primary key,
    tenant       text    not null,
    kind         text    not null,
    name         text    not null,
    -- Empty if they are longer than a kilobyte: then they are in `bodies`.
    args         text    not null,
    state        text    not null,
    requested_at integer not null,
    -- When it may run; `requested_at` is when it was first scheduled to run.
    due_at       integer not null,
    created_at   integer not null,
    -- The number of attempts; how many failed; and how many lost their worker.
    attempt      integer not null default 0,
    failures     integer not null default 0,
    crashes      integer not null default 0,
    -- The worker that runs it. A claimed job belongs to (worker_id, attempt).
    worker_id    text,
    -- The job that scheduled it.
    parent_id    text,
    -- At most one unfinished job of its tenant has this key.
    key          text,
    retry        text,
    on_complete  text,
    error        text,
    -- The occurrence of a schedule for which it runs.
    schedule     text,
    -- 1: asked to stop, 2: asked to end by force.
    stop         integer not null default 0,
    -- Null for the default pool.
    pool         text,
    -- Of one function in one pool, computed from both (queue_of in base/ids.py): a worker reads only what it can run.
    queue        integer not null default 0,
    -- The stage of a pending job: waiting (for its time), ready, suspect (its workers died), paused, or held (its limit
    -- key is full).
    stage        text    not null default 'waiting',
    priority     integer not null default 0,
    -- due_at less a minute for each step of priority; jobs are claimed in its order.
    rank         integer not null default 0,
    -- The length of its arguments in bytes.
    size         integer not null default 0,
    started_at   integer,
    schedule_id  text,
    -- Such as a customer: its pool runs a limited number of jobs with one key at a time.
    limit_key    text,
    -- The trace context of the transaction that scheduled it; null unless traced.
    trace        text
) without rowid, strict;

-- The claimed jobs of a worker, for when it dies.
create index jobs_running on jobs (worker_id) where state = 'in_progress';
-- At most one unfinished job has a key.
create unique index jobs_key on jobs (tenant, key) where key is not null and state in ('pending', 'in_progress');
-- Ready jobs. The size is read for each candidate, so the index has it.
create index jobs_ready on jobs (queue, tenant, rank, id, size) where state = 'pending' and stage = 'ready';
-- Jobs that wait for their time.
create index jobs_waiting on jobs (due_at, id) where state = 'pending' and stage = 'waiting';
-- Suspects; mostly empty.
create index jobs_suspect on jobs (due_at, id) where state = 'pending' and stage = 'suspect';
-- Lists of unfinished jobs, and how many a tenant has and how large they are, for its quotas. Lists of all functions are
-- read function by function.
create index jobs_by_name on jobs (tenant, name, id, size);
create index jobs_by_schedule on jobs (tenant, schedule_id, id) where schedule_id is not null;
create index jobs_by_parent on jobs (tenant, parent_id, id) where parent_id is not null;
-- Pending jobs with a limit key.
create index jobs_by_limit_key on jobs (stage, queue, tenant, limit_key, rank, id)
 where state = 'pending' and limit_key is not null;
-- Runs that no other run has called with `step.workflow`. Such a call is known by its completion, whose kind is "step"; a
-- name that stands before the kind has its quotes escaped.
create index jobs_roots on jobs (tenant, id)
 where kind = 'workflow'
   and coalesce(substr(on_complete, instr(on_complete, '", "kind": "') + 12, 5), '') <> 'step"';

-- Arguments of more than a kilobyte. The job's own `args` is empty then.
create table bodies (
    id   text not null primary key,
    args text not null
) strict;

-- Finished jobs: rows are only appended and pruned.
create table history (
    id           text    not null primary key,
    tenant       text    not null,
    kind         text    not null,
    name         text    not null,
    state        text    not null,
    requested_at integer not null,
    due_at       integer not null,
    created_at   integer not null,
    started_at   integer,
    completed_at integer not null,
    attempt      integer not null,
    failures     integer not null,
    crashes      integer not null,
    worker_id    text,
    parent_id    text,
    key          text,
    schedule_id  text,
    pool         text,
    priority     integer not null default 0,
    stop         integer not null default 0,
    schedule     text,
    args         text    not null,
    result       text,
    error        text,
    retry        text,
    on_complete  text,
    limit_key    text,
    -- The job as which it runs again.
    retried_as   text
) without rowid, strict;

-- Lists of finished jobs, the newest first within a state.
create index history_by_state on history (tenant, state, id);
create index history_by_name on history (tenant, name, state, id);
create index history_by_schedule on history (tenant, schedule_id, state, id) where schedule_id is not null;
create index history_by_parent on history (tenant, parent_id, state, id) where parent_id is not null;
-- Rows for the pruner.
create index history_completed on history (completed_at);
create index history_by_key on history (tenant, key, state, id) where key is not null;
-- Failed jobs by the time when they failed, and those that were not run again.
create index history_failed on history (tenant, completed_at) where state = 'failed';
-- Lists of runs of workflows, and of those that no other run has called, whatever other jobs lie between them.
create index history_runs on history (tenant, state, id) where kind = 'workflow';
create index history_roots on history (tenant, state, id)
 where kind = 'workflow'
   and coalesce(substr(on_complete, instr(on_complete, '", "kind": "') + 12, 5), '') <> 'step"';
create index history_unretried on history (tenant, state, id) where state = 'failed' and retried_as is null;

-- Attempts that were followed by another one. The last attempt of a job stands in the job's own row.
create table attempts (
    job_id     text    not null,
    attempt    integer not null,
    worker_id  text    not null,
    started_at integer,
    ended_at   integer not null,
    outcome    text    not null,
    error      text,
    primary key (job_id, attempt)
) without rowid, strict;

create table logs (
    job_id    text    not null,
    attempt   integer not null,
    number    integer not null,
    at        integer not null,
    level     text    not null,
    text      text    not null,
    is_cut    integer not null,
    -- For the list of lines across functions.
    tenant    text,
    name      text,
    stored_at integer,
    primary key (job_id, attempt, number)
) without rowid, strict;

create index logs_stored on logs (tenant, stored_at, job_id, attempt, number);

-- How many jobs each function of a tenant has. SQLite has one writer, so the row is changed in place.
create table job_counts (
    tenant     text    not null,
    name       text    not null,
    unfinished integer not null,
    success    integer not null,
    failed     integer not null,
    canceled   integer not null,
    -- How many failed ones run again.
    retried    integer not null default 0,
    primary key (tenant, name)
) without rowid, strict;

-- Functions of which no job is left.
create index job_counts_empty on job_counts (tenant)
 where unfinished = 0 and success = 0 and failed = 0 and canceled = 0;

-- The results of mutations that were called with an idempotency key.
create table calls (
    tenant      text    not null,
    key         text    not null,
    name        text    not null,
    fingerprint text    not null,
    result      text    not null,
    created_at  integer not null,
    primary key (tenant, key)
) without rowid, strict;

create index calls_created on calls (created_at);


-- Workers.

-- Workers that run, each with a lease that its heartbeat renews.
create table workers (
    id           text    not null primary key,
    started_at   integer not null,
    leased_until integer not null,
    host         text    not null,
    pid          integer not null,
    -- The app and release of a worker, and the functions and pools that it serves.
    app          text    not null default '',
    release      text    not null default '',
    serves       text,
    -- The version of the schema that its code knows.
    code         integer not null default 0,
    -- Its time zone data: workers of one fleet should have the same.
    zone_data    text    not null default ''
) without rowid, strict;

create index workers_lease on workers (leased_until);

-- How attempts ended, added up by workers, for the charts and lists of a dashboard.
create table activity (
    tenant   text    not null,
    -- A function, whose rows are for ten minutes each; or empty for all functions, whose rows are for a minute each.
    name     text    not null,
    at       integer not null,
    -- The worker that wrote it: so no two write the same row.
    source   text    not null,
    ended    integer not null,
    failed   integer not null,
    canceled integer not null,
    retried  integer not null,
    -- The spreads of lateness and duration: numbers by bucket, as JSON. Null for those of one function.
    late     text,
    took     text,
    primary key (tenant, name, at, source)
) without rowid, strict;

create index activity_at on activity (at);

-- How attempts ended in each pool, added up by workers, for the charts of a dashboard.
create table pool_activity (
    tenant   text    not null,
    -- Its name without the app's.
    pool     text    not null,
    -- When the ten minutes of a row begin.
    at       integer not null,
    -- The worker that wrote it: so no two write the same row.
    source   text    not null,
    ended    integer not null,
    failed   integer not null,
    canceled integer not null,
    retried  integer not null,
    -- The spread of lateness: numbers by bucket, as JSON.
    late     text,
    primary key (tenant, pool, at, source)
) without rowid, strict;

create index pool_activity_at on pool_activity (at);


-- Limits.

-- The limits of each pool. Only pools with a limit have a row.
create table pool_limits (
    pool              text    not null primary key,
    running           integer,
    per_tenant        integer,
    starts_per_minute integer,
    paused            integer not null default 0,
    -- The instant up to which the rate is used, in microseconds since the epoch.
    used_until_us     integer not null default 0,
    -- The declaration of the pool in code.
    declared          text,
    -- How many jobs of one limit key.
    per_key           integer,
    -- Why it is paused.
    note              text    not null default ''
) strict;

-- The limits of each tenant. Only tenants with a limit have a row.
create table tenant_limits (
    tenant            text    not null primary key,
    running           integer,
    starts_per_minute integer,
    jobs              integer,
    argument_bytes    integer,
    schedules         integer,
    -- The instant up to which the rate is used, in microseconds since the epoch.
    used_until_us     integer not null default 0
) strict;


-- Documents of the app.

-- The documents of `ctx.db`.
create table documents (
    tenant text not null,
    id     text not null,
    body   text not null,
    primary key (tenant, id)
) without rowid, strict;

-- Which declared indexes are built, and over which fields: for all tenants under the empty name.
create table document_indexes (
    tenant     text not null,
    index_name text not null,
    fields     text not null,
    primary key (tenant, index_name)
) without rowid, strict;

-- The entries of declared indexes.
create table index_entries (
    tenant      text not null,
    index_name  text not null,
    key         blob not null,
    document_id text not null,
    primary key (tenant, index_name, key, document_id)
) without rowid, strict;


-- Schedules and their ledger.

create table schedules (
    tenant       text    not null,
    id           text    not null,
    kind         text    not null,
    spec         text    not null,
    target       text    not null,
    function     text    not null,
    state        text    not null,
    status       text    not null,
    note         text    not null,
    memo         text    not null,
    -- Up to where its times are judged, its next evaluation, and its next start.
    seen_until   integer not null,
    wake_at      integer,
    next_at      integer,
    last_at      integer,
    last_result  text,
    last_failure text,
    version      integer not null,
    revision     integer not null,
    created_at   integer not null,
    updated_at   integer not null,
    -- The format of the row: code that does not know a newer one leaves the row to code that does.
    format       integer not null default 1,
    time_zone    text,
    -- Whether the run that ended last failed.
    failing      integer not null default 0,
    -- Whether the last start came late.
    late         integer not null default 0,
    -- When a time of it was last found missed.
    missed_at    integer,
    primary key (tenant, id)
) without rowid, strict;

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
create index schedules_missed on schedules (tenant, missed_at, id) where missed_at is not null;
-- Lists by id, likewise.
create index schedules_in_order on schedules (
    tenant, id, kind, status, function, time_zone, failing, late, missed_at, next_at
);
-- SQLite reads the row for each column that an index lacks, also if the condition of the index fixes its value.
create index schedules_paused on schedules (tenant, status, id) where status = 'paused';
create index schedules_failing on schedules (tenant, failing, id) where failing = 1;
create index schedules_late on schedules (tenant, late, id) where late = 1;

-- Open runs and waiting occurrences as rows: an evaluation writes what it changes, however many there are.
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

-- The oldest runs and the waiting occurrences of a schedule, in order.
create index open_occurrences_in_order on open_occurrences (tenant, schedule_id, waits, position);

-- The ledger: each nominal time with its outcome and the reason for it.
create table occurrences (
    tenant      text    not null,
    schedule_id text    not null,
    nominal_at  integer not null,
    origin      text    not null,
    request     text    not null,
    actual_at   integer not null,
    fate        text    not null,
    reason      text    not null,
    detail      text    not null,
    decided_at  integer not null,
    run_id      text,
    job_id      text,
    started_at  integer,
    ended_at    integer,
    outcome     text,
    primary key (tenant, schedule_id, nominal_at, origin, request)
) without rowid, strict;

-- Rows for the pruner.
create index occurrences_decided on occurrences (decided_at);
-- The ledger of all schedules by time, and by reason.
create index occurrences_in_order on occurrences (tenant, nominal_at, schedule_id);
create index occurrences_by_reason on occurrences (tenant, reason, nominal_at, schedule_id);

-- How runs of schedules ended. The next evaluation of the schedule takes them.
create table run_reports (
    job_id      text    not null primary key,
    tenant      text    not null,
    schedule_id text    not null,
    nominal_at  integer not null,
    origin      text    not null,
    request     text    not null,
    ended_at    integer not null,
    outcome     text    not null,
    result      text,
    message     text    not null
) without rowid, strict;

create index run_reports_by_schedule on run_reports (tenant, schedule_id, ended_at);

-- Who changed a schedule, when and how.
create table schedule_history (
    id          text    not null primary key,
    tenant      text    not null,
    schedule_id text    not null,
    at          integer not null,
    actor       text    not null,
    action      text    not null,
    detail      text    not null,
    -- A schedule with the id of a deleted one continues its version.
    version     integer
) without rowid, strict;

create index schedule_history_by_schedule on schedule_history (tenant, schedule_id, id);
-- The last change of a tenant's schedules.
create index schedule_history_newest on schedule_history (tenant, id);


-- Workflows.

-- The records of workflow runs, in addition to their jobs.
create table workflow_runs (
    run_id         text    not null primary key,
    seed           text    not null,
    -- How often it continued as new.
    generation     integer not null default 0,
    -- The number of the call that started it in its parent.
    parent_seq     integer,
    progress       text,
    attributes     text,
    -- The run of which it is the restart.
    restarted_from text
) without rowid, strict;

-- One row for each event of a run. Rows are only added.
create table workflow_journal (
    run_id     text    not null,
    generation integer not null,
    position   integer not null,
    kind       text    not null,
    seq        integer not null,
    name       text    not null,
    at         integer not null,
    call       text,
    arguments  text    not null default '',
    due_at     integer,
    attempt    integer,
    result     text,
    error      text,
    sender     text,
    primary key (run_id, generation, position)
) without rowid, strict;

-- Messages to runs. Rows that were taken stay as long as the run, so that their keys are known.
-- Ids of one run's messages increase for the same reason.
create table workflow_inbox (
    id       integer not null primary key,
    run_id   text    not null,
    kind     text    not null,
    name     text    not null,
    seq      integer not null,
    result   text,
    error    text,
    key      text,
    sent_at  integer not null,
    taken_at integer,
    -- The sender of an event.
    sender   text
) strict;

create index workflow_inbox_waiting on workflow_inbox (run_id, id) where taken_at is null;
create unique index workflow_inbox_key on workflow_inbox (run_id, key) where key is not null;
create index workflow_inbox_run on workflow_inbox (run_id);

-- The attributes by which lists find runs: a row for each. A value is JSON text.
create table workflow_attributes (
    tenant text not null,
    name   text not null,
    value  text not null,
    run_id text not null,
    primary key (tenant, name, value, run_id)
) without rowid, strict;

create index workflow_attributes_run on workflow_attributes (run_id);

-- The status of workflows. One without a row is active.
create table workflow_types (
    name       text    not null primary key,
    status     text    not null,
    changed_at integer not null
) without rowid, strict;


-- Access.

-- Tokens of the HTTP API. Of a token's secret only a hash is kept.
create table access_tokens (
    id           text    not null primary key,
    -- Null for a token of all tenants.
    tenant       text,
    name         text    not null,
    scope        text    not null,
    -- SHA-256 of the secret, as hex digits: a secret of 256 random bits needs no slower hash.
    digest       text    not null,
    created_at   integer not null,
    created_by   text    not null,
    expires_at   integer,
    revoked_at   integer,
    last_used_at integer
) strict;

create index access_tokens_by_tenant on access_tokens (tenant, id);

-- The audit log: what was changed by whom.
create table audit_log (
    -- Begins with the time, so ids are in the order of changes.
    id      text    not null primary key,
    -- Null for changes that concern no single tenant, such as those of a pool.
    tenant  text,
    at      integer not null,
    actor   text    not null,
    action  text    not null,
    target  text    not null,
    request text    not null,
    before  text,
    after   text
) strict;

create index audit_log_by_tenant on audit_log (tenant, id);

-- Views of lists that people have saved.
create table saved_views (
    id         text    not null primary key,
    tenant     text    not null,
    page       text    not null,
    name       text    not null,
    owner      text    not null,
    params     text    not null,
    created_by text    not null,
    created_at integer not null,
    updated_at integer not null
) without rowid, strict;

-- The names of an owner's views are different.
create unique index saved_views_by_name on saved_views (tenant, page, owner, name);


-- Scripts of tenants.

create table scripts (
    tenant     text    not null,
    name       text    not null,
    language   text    not null,
    -- The draft: what the next version will be.
    source     text    not null,
    -- The JSON schema of the input; null takes any input.
    parameters text,
    note       text    not null,
    -- The version that runs; null until one is published.
    published  integer,
    -- The number of the last version.
    versions   integer not null,
    created_at integer not null,
    updated_at integer not null,
    primary key (tenant, name)
) without rowid, strict;

create table script_versions (
    tenant     text    not null,
    script     text    not null,
    version    integer not null,
    language   text    not null,
    source     text    not null,
    digest     text    not null,
    parameters text,
    note       text    not null,
    created_at integer not null,
    primary key (tenant, script, version)
) strict;

-- The usage of script runs. An attempt whose instance died has no row; `deaths` of the next one counts it.
create table script_runs (
    job_id      text    not null,
    -- 0 is a test of a script, which has no job.
    attempt     integer not null,
    tenant      text    not null,
    script      text    not null,
    version     integer,
    schedule_id text,
    deaths      integer not null,
    outcome     text    not null,
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
    host_calls  text    not null,
    -- How many writes were committed with the end.
    staged      integer not null,
    isolation   text    not null,
    engine      text    not null,
    -- Whether it was the last of several runs over a limit, so that its schedule was paused.
    paused      integer not null,
    primary key (job_id, attempt)
) strict;

create index script_runs_by_script on script_runs (tenant, script, ended_at);
create index script_runs_by_time on script_runs (tenant, ended_at, started, cpu_ms);
create index script_runs_by_schedule on script_runs (tenant, schedule_id, ended_at) where schedule_id is not null;
create index script_runs_at on script_runs (ended_at);

-- The limits of tenants.
create table script_plans (
    tenant text not null primary key,
    -- The limits that differ from those of the app, as JSON.
    limits text not null
) without rowid, strict;

-- Values of scripts.
create table script_values (
    tenant     text    not null,
    key        text    not null,
    value      text    not null,
    updated_at integer not null,
    primary key (tenant, key)
) without rowid, strict;


-- Gateways: other processes that own crons. The stored crons are a copy; the gateway's own are authoritative.

create table gateways (
    id            text    not null primary key,
    tenant        text    not null,
    name          text    not null,
    -- SHA-256 of the gateway's secret, and of the one before, which is valid until `old_until`.
    secret        text    not null,
    old_secret    text,
    old_until     integer not null,
    -- The number of the token with which the platform authenticates; the token is derived from it.
    generation    integer not null,
    -- Whether the gateway must request a new secret and a new token.
    rotates       integer not null,
    -- Where the platform reaches it; null if the gateway dials out.
    url           text,
    runtime       text    not null,
    version       text    not null,
    instance_id   text    not null,
    -- The process that this one has replaced: it cannot come back.
    former_id     text    not null,
    status        text    not null,
    -- JSON lists.
    warnings      text    not null,
    capabilities  text    not null,
    commands      text    not null,
    registered_at integer not null,
    last_seen_at  integer not null,
    -- The digest of its crons from the gateway, and that of the copy; empty before the first.
    digest        text    not null,
    copied_digest text    not null,
    copied_at     integer,
    -- Why the last sync failed.
    error         text,
    -- When to sync again, and the number of the last sync: of two at a time the later one's copy counts.
    sync_at       integer not null,
    syncs         integer not null
) without rowid, strict;

create unique index gateways_by_name on gateways (tenant, name);
create unique index gateways_by_secret on gateways (secret);
create unique index gateways_by_old_secret on gateways (old_secret) where old_secret is not null;
create index gateways_to_sync on gateways (sync_at);

create table gateway_crons (
    tenant      text    not null,
    gateway_id  text    not null,
    cron_id     text    not null,
    -- The cron as received from the gateway, as JSON.
    item        text    not null,
    enabled     integer not null,
    last_status text,
    -- The next time; the greatest number if there is none.
    next_run_at integer not null,
    -- When it was removed at the gateway.
    removed_at  integer,
    primary key (gateway_id, cron_id)
) without rowid, strict;

create index gateway_crons_by_time on gateway_crons (tenant, next_run_at, gateway_id, cron_id);

-- Tokens with which gateways register, as SHA-256.
create table gateway_join_tokens (
    hash       text    not null primary key,
    tenant     text    not null,
    name       text    not null,
    expires_at integer not null
) without rowid, strict;

-- Requests to gateways that dial out.
create table gateway_requests (
    id         text    not null primary key,
    gateway_id text    not null,
    -- The request, as JSON.
    request    text    not null,
    -- After it nobody takes the request, and nobody waits for its reply.
    deadline   integer not null,
    taken_at   integer,
    status     integer,
    reply      text
) without rowid, strict;

create index gateway_requests_to_take on gateway_requests (gateway_id, id) where taken_at is null;
create index gateway_requests_by_deadline on gateway_requests (deadline);
