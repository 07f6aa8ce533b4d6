-- Unfinished and finished jobs apart, large arguments apart from both, attempts and logs as rows, kept counts.
-- `jobs` holds what is to be done; a job that ends moves to `history`, which is only appended to and pruned.

drop index jobs_completed;
drop index jobs_unfinished;

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
    on_complete text
) without rowid, strict;

-- Arguments of more than a kilobyte. The job's own `args` is empty then.
create table bodies (
    id   text not null primary key,
    args text not null
) strict;

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
    job_id  text    not null,
    attempt integer not null,
    number  integer not null,
    at      integer not null,
    level   text    not null,
    text    text    not null,
    is_cut  integer not null,
    primary key (job_id, attempt, number)
) without rowid, strict;

-- How many jobs each function of a tenant has. SQLite has one writer, so the row is changed in place.
create table job_counts (
    tenant     text    not null,
    name       text    not null,
    unfinished integer not null,
    success    integer not null,
    failed     integer not null,
    canceled   integer not null,
    primary key (tenant, name)
) without rowid, strict;

alter table jobs add column started_at integer;
alter table jobs add column schedule_id text;
update jobs set schedule_id = json_extract(schedule, '$.id') where schedule is not null and json_valid(schedule);

insert into job_counts (tenant, name, unfinished, success, failed, canceled)
select tenant, name, sum(state in ('pending', 'in_progress')), sum(state = 'success'), sum(state = 'failed'),
       sum(state = 'canceled')
  from jobs
 group by tenant, name;

-- Lines that cannot be read are left out; storable_lines (base/records/logs.py) makes what SQLite could not return readable.
insert into logs (job_id, attempt, number, at, level, text, is_cut)
select jobs.id, jobs.attempt, line.key, json_extract(line.value, '$[0]'), json_extract(line.value, '$[1]'),
       json_extract(line.value, '$[2]'), coalesce(json_extract(jobs.logs, '$.is_truncated'), 0)
  from jobs
  join json_each(storable_lines(jobs.logs)) as line
 where jobs.logs is not null;

insert into history (id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt,
                     failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, schedule, args, result, error, retry,
                     on_complete)
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt,
       failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, schedule, args, result, error, retry,
       on_complete
  from jobs
 where state in ('success', 'failed', 'canceled');
delete from jobs where state in ('success', 'failed', 'canceled');

alter table jobs drop column completed_at;
alter table jobs drop column result;
alter table jobs drop column logs;

-- Lists of finished jobs, the newest first within a state.
create index history_by_state on history (tenant, state, id);
create index history_by_name on history (tenant, name, state, id);
create index history_by_schedule on history (tenant, schedule_id, state, id) where schedule_id is not null;
create index history_by_parent on history (tenant, parent_id, state, id) where parent_id is not null;
-- What retention may remove.
create index history_completed on history (completed_at);
-- Lists of unfinished jobs, and how many a tenant has and how large they are, for its quotas. Lists of all functions are
-- read function by function.
create index jobs_by_name on jobs (tenant, name, id, size);
create index jobs_by_schedule on jobs (tenant, schedule_id, id) where schedule_id is not null;
create index jobs_by_parent on jobs (tenant, parent_id, id) where parent_id is not null;
-- Functions of which no job is left.
create index job_counts_empty on job_counts (tenant)
 where unfinished = 0 and success = 0 and failed = 0 and canceled = 0;
