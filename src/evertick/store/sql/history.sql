-- name: add_logs
-- Store lines of attempts. A stored line stays as it is.
insert into logs {rows: job_id text, attempt integer, number integer, at bigint, level text, text text,
    is_cut smallint, tenant text, name text, stored_at bigint}
on conflict do nothing

-- name: beginnings
-- For each job in the JSON list :ids the jobs from which it follows, their distance and keys: at most :limit steps up.
-- A removed job has no key, and its predecessors are not known.
with recursive found (line_of, id, steps) as (
    select each {by bytes}, each {by bytes}, 0
      from {each :ids} as asked
    union all
    select line_of,
           coalesce((select parent_id from jobs where id = found.id and tenant = :tenant),
                    (select parent_id from history where id = found.id and tenant = :tenant)),
           steps + 1
      from found
     where found.id is not null and steps < :limit
)
select line_of, steps, id, coalesce((select key from jobs where id = found.id and tenant = :tenant),
                                    (select key from history where id = found.id and tenant = :tenant))
  from found
 where id is not null

-- name: delete_attempts (sqlite)
-- Remove the attempts of jobs. :ids is a JSON list. PostgreSQL does so within delete_history.
delete from attempts
 where job_id in (select value from json_each(:ids))

-- name: delete_bodies (sqlite)
-- Remove the large arguments of jobs. :ids is a JSON list. PostgreSQL does so within delete_history.
delete from bodies
 where id in (select value from json_each(:ids))

-- name: delete_history (postgres)
-- Remove finished jobs with their arguments and attempts; their counts go down. :ids is a JSON list.
with ids as materialized (
    select array(select json_array_elements_text(:ids::json)) as these
), gone as (
    delete from history
     where id = any ((select these from ids)::text[])
    returning tenant, name, state, retried_as
), bodies_gone as (
    delete from bodies
     where id = any ((select these from ids)::text[])
), attempts_gone as (
    delete from attempts
     where job_id = any ((select these from ids)::text[])
)
insert into job_count_changes (tenant, name, unfinished, success, failed, canceled, retried)
select tenant, name, 0, -count(*) filter (where state = 'success'), -count(*) filter (where state = 'failed'),
       -count(*) filter (where state = 'canceled'), -count(*) filter (where state = 'failed' and retried_as is not null)
  from gone
 group by tenant, name

-- name: delete_history (sqlite)
-- Remove finished jobs. :ids is a JSON list. Other statements remove what belongs to them.
delete from history
 where id in (select value from json_each(:ids))
returning tenant, name, state, retried_as

-- name: delete_logs (postgres)
-- Remove at most :limit lines of jobs' logs. :ids is a JSON list. PostgreSQL's own, because it finds a row again by its
-- place.
delete from logs
 where ctid = any (array(select ctid
                           from logs
                          where job_id = any (array(select json_array_elements_text(:ids::json)))
                          limit :limit))

-- name: delete_logs (sqlite)
-- Remove at most :limit lines of jobs' logs. :ids is a JSON list.
delete from logs
 where (job_id, attempt, number) in (select job_id, attempt, number
                                       from logs
                                      where job_id in (select value from json_each(:ids))
                                      limit :limit)

-- name: edge_lines
-- The end of a scan of :skip lines of a tenant, if there are more.
select stored_at, job_id, attempt, number
  from logs
 where tenant = :tenant
   and (stored_at, job_id, attempt, number) {beyond} (:beyond_at, :beyond_job, :beyond_attempt, :beyond_number)
   and (stored_at, job_id, attempt, number) {within} (:horizon_at, :horizon_job, :horizon_attempt, :horizon_number)
 order by stored_at {order}, job_id {order}, attempt {order}, number {order}
 limit 1 offset :skip

-- name: expired_jobs
-- At most :limit jobs that ended before :before, the oldest first. Reads the index history_completed.
select id
  from history
 where completed_at < :before
 order by completed_at
 limit :limit

-- name: expired_jobs (postgres)
-- As SQLite's, but locked; those that another pruner has locked are skipped.
select id
  from history
 where completed_at < :before
 order by completed_at
 limit :limit
   for update skip locked

-- name: job_family (postgres)
-- A job and all that follow from it, at most :limit: the jobs it has scheduled, those they have scheduled, and so on.
with recursive family (id) as (
    select cast(:id as text) collate "C"
    union
    select child.id
      from family
     cross join lateral (select id
                           from jobs
                          where tenant = :tenant and parent_id = family.id
                         union all
                         select id
                           from history
                          where tenant = :tenant and parent_id = family.id) as child
)
select id
  from family
 limit :limit

-- name: job_family (sqlite)
-- A job and all that follow from it, at most :limit: the jobs it has scheduled, those they have scheduled, and so on.
-- SQLite's own, because PostgreSQL allows a recursive query to refer to itself only once.
with recursive family (id) as (
    select :id
    union
    select jobs.id
      from family
      join jobs on jobs.tenant = :tenant and jobs.parent_id = family.id
    union
    select history.id
      from family
      join history on history.tenant = :tenant and history.parent_id = family.id
     limit :limit
)
select id
  from family

-- name: list_attempts
-- Every attempt of the jobs in the JSON list :jobs, unordered. The last one is in the job's own row. A claimed mutation
-- is shown as pending: it had no effect yet. `state || ''` keeps databases from the index of running jobs, which they
-- would read completely.
select job_id, attempt, worker_id, started_at, ended_at, outcome, error
  from attempts
 where job_id in {list :jobs}
union all
select id, attempt, worker_id, started_at, completed_at, state, error
  from history
 where id in {list :jobs} and worker_id is not null
union all
select id, attempt, worker_id, started_at, null, null, null
  from jobs
 where id in {list :jobs} and (state || '') = 'in_progress' and kind = 'action'

-- name: list_lines
-- The log lines of a tenant's functions, in the order in which they were stored: after one position and up to another,
-- at most :limit. Reads the index logs_stored.
select stored_at, job_id, attempt, number, name, at, level, text, is_cut
  from logs
 where tenant = :tenant
   and (stored_at, job_id, attempt, number) {beyond} (:beyond_at, :beyond_job, :beyond_attempt, :beyond_number)
   and (stored_at, job_id, attempt, number) {within} (:horizon_at, :horizon_job, :horizon_attempt, :horizon_number)
   and (cast(:name as text) is null or name = :name)
   and (cast(:levels as text) is null or level in {list :levels})
   and (cast(:text as text) is null or {has text :text})
 order by stored_at {order}, job_id {order}, attempt {order}, number {order}
 limit :limit

-- name: list_lines_of_jobs
-- As list_lines, of few jobs, a JSON list of ids; the lines of each are read and sorted. Expressions keep databases
-- from the index logs_stored, which also has the lines of all other jobs.
select stored_at, job_id, attempt, number, name, at, level, text, is_cut
  from logs
 where job_id in {list :jobs} and (tenant || '') = :tenant
   and (stored_at + 0, job_id, attempt, number) {beyond} (:beyond_at, :beyond_job, :beyond_attempt, :beyond_number)
   and (stored_at + 0, job_id, attempt, number) {within} (:horizon_at, :horizon_job, :horizon_attempt, :horizon_number)
   and (cast(:name as text) is null or name = :name)
   and (cast(:levels as text) is null or level in {list :levels})
   and (cast(:text as text) is null or {has text :text})
 order by (stored_at + 0) {order}, job_id {order}, attempt {order}, number {order}
 limit :limit

-- name: list_logs
-- The log lines of a job's attempts so far, attempt by attempt. Lines of its schedule, which have attempt 0, are only
-- in lists of lines.
select attempt, number, at, level, text, is_cut
  from logs
 where job_id = :id and attempt > 0
 order by attempt, number

-- name: pulse
-- The last change of a tenant's schedules, its next occurrence and its last log line.
select (select max(id) from schedule_history where tenant = :tenant),
       (select next_at from schedules where tenant = :tenant
         order by coalesce(next_at, 9223372036854775807), id limit 1),
       (select max(stored_at) from logs where tenant = :tenant)
