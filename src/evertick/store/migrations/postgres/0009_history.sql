-- Unfinished and finished jobs apart, large arguments apart from both, attempts and logs as rows, kept counts.
-- `jobs` holds what is to be done; a job that ends moves to `history`, which is only appended to and pruned.

drop index jobs_completed;
drop index jobs_unfinished;

create table history (
    id           text collate "C" not null primary key,
    tenant       text collate "C" not null,
    kind         text collate "C" not null,
    name         text collate "C" not null,
    state        text collate "C" not null,
    requested_at bigint           not null,
    due_at       bigint           not null,
    created_at   bigint           not null,
    started_at   bigint,
    completed_at bigint           not null,
    attempt      integer          not null,
    failures     integer          not null,
    crashes      integer          not null,
    worker_id    text collate "C",
    parent_id    text collate "C",
    key          text collate "C",
    schedule_id  text collate "C",
    pool         text collate "C",
    priority     smallint         not null default 0,
    stop         smallint         not null default 0,
    schedule     text,
    args         text             not null,
    result       text,
    error        text,
    retry        text,
    on_complete text
);

-- Arguments of more than a kilobyte. The job's own `args` is empty then.
create table bodies (
    id           text collate "C" not null primary key,
    args         text             not null
);

-- Attempts that were followed by another one. The last attempt of a job stands in the job's own row.
create table attempts (
    job_id       text collate "C" not null,
    attempt      integer          not null,
    worker_id    text collate "C" not null,
    started_at   bigint,
    ended_at     bigint           not null,
    outcome      text collate "C" not null,
    error        text,
    primary key (job_id, attempt)
);

create table logs (
    job_id       text collate "C" not null,
    attempt      integer          not null,
    number       integer          not null,
    at           bigint           not null,
    level        text collate "C" not null,
    text         text             not null,
    is_cut       smallint         not null,
    primary key (job_id, attempt, number)
);

-- How many jobs each function of a tenant has: this row and its changes together. A change is a row that is only
-- inserted, so that transactions which count the same function do not wait for each other, nor conflict.
create table job_counts (
    tenant       text collate "C" not null,
    name         text collate "C" not null,
    unfinished   bigint           not null,
    success      bigint           not null,
    failed       bigint           not null,
    canceled     bigint           not null,
    primary key (tenant, name)
);

create table job_count_changes (
    tenant       text collate "C" not null,
    name         text collate "C" not null,
    unfinished   bigint           not null,
    success      bigint           not null,
    failed       bigint           not null,
    canceled     bigint           not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

alter table jobs add column started_at bigint;
alter table jobs add column schedule_id text collate "C";
-- By a pattern, because the text may be of a release that this one cannot read.
update jobs
   set schedule_id = substring(schedule from '"id": ?("(?:[^"\\]|\\.)*")')::json #>> '{}'
 where schedule is not null;

insert into job_counts (tenant, name, unfinished, success, failed, canceled)
select tenant, name, count(*) filter (where state in ('pending', 'in_progress')), count(*) filter (where state = 'success'),
       count(*) filter (where state = 'failed'), count(*) filter (where state = 'canceled')
  from jobs
 group by tenant, name;

-- The lines of a log. PostgreSQL does not decode every text that was written: where there is a NUL or half of a character,
-- such escapes stay as they are written. A log that is no JSON is left out.
create function evertick_lines (logs text) returns table (number integer, at bigint, level text, text text, is_cut integer)
language plpgsql as $$
declare
    kept json;
    whole text;
begin
    foreach whole in array array[
        logs, regexp_replace(logs, '(?<!\\)((?:\\\\)*)\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1\\\\u\2', 'g')]
    loop
        begin
            kept := whole::json;
            perform (line ->> 0)::bigint, line ->> 2 from json_array_elements(kept -> 'lines') as each (line);
            return query
                select (each.place - 1)::integer, (line ->> 0)::bigint, line ->> 1, line ->> 2,
                       coalesce((kept ->> 'is_truncated')::boolean, false)::integer
                  from json_array_elements(kept -> 'lines') with ordinality as each (line, place);
            return;
        exception when others then
            continue;
        end;
    end loop;
end $$;

insert into logs (job_id, attempt, number, at, level, text, is_cut)
select jobs.id, jobs.attempt, line.number, line.at, line.level, line.text, line.is_cut
  from jobs
 cross join lateral evertick_lines(jobs.logs) as line
 where jobs.logs is not null;
drop function evertick_lines(text);

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

-- Lists of finished jobs, the newest first within a state. They end in an expression, so that PostgreSQL cannot take the
-- primary key for them: it would read all newer jobs where it expects to meet a few of the wanted ones soon.
create index history_by_state on history (tenant, state, (id || ''));
create index history_by_name on history (tenant, name, state, (id || ''));
create index history_by_schedule on history (tenant, schedule_id, state, (id || '')) where schedule_id is not null;
create index history_by_parent on history (tenant, parent_id, state, (id || '')) where parent_id is not null;
-- What retention may remove.
create index history_completed on history (completed_at);
-- Lists of unfinished jobs, and how many a tenant has and how large they are, for its quotas. Lists of all functions are
-- read function by function.
create index jobs_by_name on jobs (tenant, name, (id || '')) include (size);
create index jobs_by_schedule on jobs (tenant, schedule_id, (id || '')) where schedule_id is not null;
create index jobs_by_parent on jobs (tenant, parent_id, (id || '')) where parent_id is not null;
-- Functions of which no job is left.
create index job_counts_empty on job_counts (tenant)
 where unfinished = 0 and success = 0 and failed = 0 and canceled = 0;
