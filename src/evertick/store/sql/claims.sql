-- name: add_attempt (sqlite)
-- Store an attempt that another one will follow. PostgreSQL does so within retry_jobs.
insert into attempts (job_id, attempt, worker_id, started_at, ended_at, outcome, error)
values (?, ?, ?, ?, ?, ?, ?)

-- name: ask_to_stop (sqlite)
-- Ask the actions that run as jobs to stop: 1 asks, 2 ends them by force. Only the end of its function ends one. Until
-- then its key is free: its replacement may be scheduled. PostgreSQL does so within cancel_jobs.
update jobs
   set stop = max(stop, :stop), key = null
 where id in {list :ids} and (tenant || '') = :tenant and state = 'in_progress' and kind = 'action'
returning id, state, on_complete, schedule, name, trace

-- name: claim_ids (postgres)
-- Lease the jobs in the JSON list :ids, as claim_jobs does, if they are still ready: they were chosen by their keys.
-- PostgreSQL's own: rows that another transaction is changing are skipped, not waited for.
update jobs
   set state = 'in_progress', kind = :kind, attempt = attempt + 1, worker_id = :worker_id,
       started_at = :now
 where id = any (array(select id
                         from jobs
                        where id in {list :ids} and state = 'pending' and stage = 'ready'
                          for update skip locked))
returning id, tenant, kind, name,
          case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
          due_at, attempt, failures, crashes, key, retry, on_complete, schedule, queue, rank, trace

-- name: claim_ids (sqlite)
-- Lease the jobs in the JSON list :ids. A claimed job belongs to (worker, attempt) while the worker's lease is valid;
-- every later write repeats that pair. SQLite's part of claim_jobs: ready_ids has found them.
update jobs
   set state = 'in_progress', kind = :kind, attempt = attempt + 1, worker_id = :worker_id,
       started_at = :now
 where id in (select value from json_each(:ids))
returning id, tenant, kind, name,
          case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
          due_at, attempt, failures, crashes, key, retry, on_complete, schedule, queue, rank, trace

-- name: claim_jobs (postgres)
-- Lease ready jobs: by rank from each first job (:queues, :tenants, :ranks) on, up to its share (:limits), at most
-- :limit in all, and at most :bytes of arguments unless the first job alone has more; the shares take turns, so that
-- large arguments of one leave capacity for the others. A claimed job belongs to (worker, attempt) while the worker's
-- lease is valid; every later write repeats that pair. Reads the index jobs_ready. PostgreSQL's own: one statement, and
-- rows that another worker is claiming are skipped, not waited for. The first rank skips the entries of claimed jobs,
-- which stay in the index until the next VACUUM.
with candidate as materialized (
    select job.id, job.size, share.place, row_number() over (partition by share.place order by job.rank, job.id) as turn
      from unnest(:queues::bigint[], :tenants::text[], :ranks::bigint[], :limits::int[])
           with ordinality as share (queue, tenant, rank, jobs, place)
     cross join lateral (select id, size, rank
                           from jobs
                          where queue = share.queue and tenant = share.tenant and state = 'pending' and stage = 'ready'
                            and rank >= share.rank
                          order by rank, id
                          limit share.jobs
                            for update skip locked) as job
), counted as (
    select id, sum(size) over in_turn as size_so_far, row_number() over in_turn as position
      from candidate
    window in_turn as (order by turn, place)
)
update jobs
   set state = 'in_progress', kind = :kind, attempt = attempt + 1, worker_id = :worker_id,
       started_at = :now
 where id = any (array(select id from counted where size_so_far <= :bytes or position = 1))
returning id, tenant, kind, name,
          case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
          due_at, attempt, failures, crashes, key, retry, on_complete, schedule, queue, rank, trace

-- name: claim_suspect (postgres)
-- Lease the suspect :id, if it is still pending.
-- As SQLite's, but a row that another worker is claiming now is skipped, not waited for.
update jobs
   set state = 'in_progress', kind = :kind, attempt = attempt + 1, worker_id = :worker_id,
       started_at = :now
 where id = any (array(select id
                         from jobs
                        where id = :id and state = 'pending' and stage = 'suspect' and due_at <= :now
                          for update skip locked))
returning id, tenant, kind, name,
          case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
          due_at, attempt, failures, crashes, key, retry, on_complete, schedule, queue, rank, trace

-- name: claim_suspect (sqlite)
-- Lease the suspect :id, if it is still pending.
-- claim_jobs skips it: it must not be claimed together with other jobs.
update jobs
   set state = 'in_progress', kind = :kind, attempt = attempt + 1, worker_id = :worker_id,
       started_at = :now
 where id = :id and state = 'pending' and stage = 'suspect' and due_at <= :now
returning id, tenant, kind, name,
          case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
          due_at, attempt, failures, crashes, key, retry, on_complete, schedule, queue, rank, trace

-- name: confirm (postgres)
-- Write something that changes nothing: a message in the log that nothing reads. Only PostgreSQL has standbys.
select pg_logical_emit_message(true, 'evertick', '')

-- name: delete_finished (sqlite)
-- Remove jobs that are in `history` now. :ids is a JSON list. PostgreSQL moves a job in one statement.
delete from jobs
 where id in (select value from json_each(:ids))

-- name: finish_jobs (postgres)
-- Move jobs whose last attempt ended from `jobs` to `history`, if (worker, attempt) still has them claimed. One
-- statement for many jobs. :rows is a JSON array of objects: the driver writes it many times faster than arrays, one
-- for each column; members that most ends do not have may be omitted. Returns the ids that were still claimed. A job
-- that was asked to stop ends only as canceled. The ids are looked up in the primary key. `is not distinct from` keeps
-- PostgreSQL from reading jobs_running instead, where all jobs that this worker has ever finished are dead entries
-- until vacuum removes them. The attempts are looked up in an object and not joined: a join that hashes `jobs` reads
-- all rows before it deletes the first, so a SERIALIZABLE transaction locks their pages, and ends of other workers'
-- batches on the same pages conflict with it.
with e as materialized (
    select *
      from json_to_recordset(:rows::json)
           as e (id text, attempt integer, state text, started_at bigint, completed_at bigint, failures integer,
                 crashes integer, result text, error text)
), taken as (
    delete from jobs
     where id = any (array(select id from e))
       and (state, worker_id, attempt) is not distinct from
           ('in_progress', :worker_id, ((select jsonb_object_agg(id, attempt) from e) ->> id)::integer)
       and (stop = 0 or kind = 'mutation' or id = any (array(select id from e where e.state = 'canceled')))
    returning *
), gone as (
    select jobs.id, jobs.tenant, jobs.kind, jobs.name, coalesce(e.state, 'success') as state, jobs.requested_at,
           jobs.due_at, jobs.created_at, coalesce(e.started_at, jobs.started_at), e.completed_at, jobs.attempt,
           coalesce(e.failures, jobs.failures), coalesce(e.crashes, jobs.crashes), jobs.worker_id, jobs.parent_id,
           jobs.key, jobs.schedule_id, jobs.pool, jobs.priority, jobs.stop, jobs.schedule, jobs.args, e.result, e.error,
           jobs.retry, jobs.on_complete, jobs.limit_key
      from taken as jobs
      join e using (id)
), counted as (
    insert into job_count_changes (tenant, name, unfinished, success, failed, canceled)
    select tenant, name, -count(*), count(*) filter (where state = 'success'), count(*) filter (where state = 'failed'),
           count(*) filter (where state = 'canceled')
      from gone
     group by tenant, name
)
insert into history (id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt,
                     failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, schedule, args, result, error,
                     retry, on_complete, limit_key)
select *
  from gone
returning id

-- name: finish_jobs (sqlite)
-- Write how jobs ended to `history`, if (worker, attempt) still has them claimed; delete_finished follows. A job that
-- was asked to stop ends only as canceled. :rows is a JSON list: for each job its id, attempt, start, end and result,
-- and unless it succeeded its state, failures, crashes and error. SQLite's own: PostgreSQL also removes and returns
-- them in this statement, which costs SQLite a quarter more.
insert into history (id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt,
                     failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, schedule, args, result,
                     error, retry, on_complete, limit_key)
select jobs.id, tenant, kind, name, coalesce(json_extract(e.value, '$[5]'), 'success'), requested_at, due_at, created_at,
       coalesce(json_extract(e.value, '$[2]'), started_at), json_extract(e.value, '$[3]'), attempt,
       coalesce(json_extract(e.value, '$[6]'), failures), coalesce(json_extract(e.value, '$[7]'), crashes), worker_id,
       parent_id, key, schedule_id, pool, priority, stop, schedule, args, json_extract(e.value, '$[4]'),
       json_extract(e.value, '$[8]'), retry, on_complete, limit_key
  from (select value from json_each(:rows)) as e
 cross join jobs
    on jobs.id = json_extract(e.value, '$[0]')
 where state = 'in_progress' and worker_id = :worker_id and attempt = json_extract(e.value, '$[1]')
   and (stop = 0 or kind = 'mutation' or json_extract(e.value, '$[5]') = 'canceled')

-- name: held_jobs
-- The jobs that a worker has claimed, at most :limit.
select id, tenant, kind, name,
       case args when '' then coalesce((select bodies.args from bodies where bodies.id = jobs.id), '') else args end,
       due_at, attempt, failures, crashes, key, retry, on_complete, schedule, queue, rank, trace
  from jobs
 where worker_id = :worker_id and state = 'in_progress'
 order by id
 limit :limit

-- name: lock_claim (postgres)
-- Whether the job is claimed under (worker, attempt). Locks the row, so it waits for a COMMIT that is still running: a
-- plain read could miss one whose reply was lost. It locks before it compares, or it would not wait for a claim or for
-- another worker's retry, whose old row does not match yet.
with locked as materialized (
    select state, worker_id, attempt
      from jobs
     where id = :id
       for update
)
select state
  from locked
 where state = 'in_progress' and worker_id = :worker_id and attempt = :attempt

-- name: lock_claim (sqlite)
-- Whether the job is still claimed under (worker, attempt). SQLite has one writer, so reading is locking.
select state
  from jobs
 where id = :id and state = 'in_progress' and worker_id = :worker_id and attempt = :attempt

-- name: moved_jobs (sqlite)
-- The jobs of the JSON list :ids that finish_jobs has just written to `history`: they are in both tables.
select id
  from jobs
 where id in (select value from json_each(:ids)) and exists (select 1 from history where history.id = jobs.id)

-- name: oldest_new_jobs (postgres)
-- The first ready job of a tenant in each gap that the known (:queues, :tenants) and the queues :others leave: one step
-- of the index jobs_ready a gap. PostgreSQL's own: the entries of claimed jobs stay in the index until the next VACUUM,
-- and known queues are skipped.
with known (queue, tenant, to_queue, to_tenant) as (
    select 0::bigint, '', 0::bigint, ''
    union all
    select queue, tenant, queue, tenant from unnest(:queues::bigint[], :tenants::text[]) as oldest (queue, tenant)
    union all
    select queue, '', queue + 1, '' from unnest(:others::bigint[]) as other (queue)
), gap as (
    select to_queue as queue, to_tenant as tenant,
           lead(queue, 1, 9223372036854775807) over in_order as end_queue, lead(tenant, 1, '') over in_order as end_tenant
      from known
    window in_order as (order by queue, tenant collate "C")
)
select oldest.queue, oldest.tenant, oldest.rank
  from gap
 cross join lateral (select queue, tenant, rank
                       from jobs
                      where state = 'pending' and stage = 'ready'
                        and (queue, tenant) > (gap.queue, gap.tenant) and (queue, tenant) < (gap.end_queue, gap.end_tenant)
                      order by queue, tenant, rank
                      limit 1) as oldest

-- name: next_waiting_at
-- When the earliest of the jobs that wait for their time is due. Reads the index jobs_waiting.
select due_at
  from jobs
 where state = 'pending' and stage = 'waiting'
 order by due_at, id
 limit 1

-- name: note_error
-- Store an error of a running job. Its end replaces that.
update jobs
   set error = :error
 where id = :id and state = 'in_progress' and worker_id = :worker_id and attempt = :attempt

-- name: promote_jobs (postgres)
-- Make up to :limit due jobs ready, the earliest first. Reads the index jobs_waiting.
-- PostgreSQL's own: rows that another worker is promoting are skipped.
update jobs
   set stage = 'ready'
 where id = any (array(select id
                         from jobs
                        where state = 'pending' and stage = 'waiting' and due_at <= :now
                        order by due_at, id
                        limit :limit
                          for update skip locked))

-- name: promote_jobs (sqlite)
-- Make up to :limit due jobs ready, the earliest first. Reads the index jobs_waiting.
update jobs
   set stage = 'ready'
 where id in (select id
                from jobs
               where state = 'pending' and stage = 'waiting' and due_at <= :now
               order by due_at, id
               limit :limit)

-- name: queue_name
-- Pool and function of a queue, from its first ready job. Reads the index jobs_ready.
select pool, name
  from jobs
 where state = 'pending' and stage = 'ready' and queue = :queue
 order by tenant, rank
 limit 1

-- name: oldest_ready_jobs (postgres)
-- The first ready job of each tenant in each queue that is not among :others, in the order of the index after (:queue,
-- :tenant), at most :limit. A loose scan of the index jobs_ready: one step a result, and one for each of the other
-- queues, however many jobs each has; at most :steps. PostgreSQL's own: it compares rows of values within the index,
-- which SQLite does not.
with recursive oldest (queue, tenant, rank) as (
    (select queue, tenant, rank
       from jobs
      where state = 'pending' and stage = 'ready' and (queue, tenant) > (:queue::bigint, :tenant::text)
      order by queue, tenant, rank
      limit 1)
    union all
    (select following.queue, following.tenant, following.rank
       from oldest
      cross join lateral (select queue, tenant, rank
                            from jobs
                           where state = 'pending' and stage = 'ready'
                             and (queue, tenant) > (
                                 case when oldest.queue = any (:others::bigint[])
                                      then oldest.queue + 1 else oldest.queue end,
                                 case when oldest.queue = any (:others::bigint[]) then '' else oldest.tenant end)
                           order by queue, tenant, rank
                           limit 1) as following)
)
select queue, tenant, rank
  from (select queue, tenant, rank from oldest limit :steps) as seen
 where queue <> all (:others::bigint[])
 limit :limit

-- name: oldest_ready_jobs (sqlite)
-- The first ready job of each tenant in each queue that is not among :others, in the order of the index after (:queue,
-- :tenant), at most :limit. A loose scan of the index jobs_ready: one step a result, and one for each of the other
-- queues, however many jobs each has; at most :steps. SQLite's own: it scans the index for (queue, tenant) > (?, ?)
-- from the queue's beginning, so a step is two searches.
with recursive oldest (queue, tenant, rank) as (
    select queue, tenant, rank
      from jobs
     where id = coalesce(
           (select id from jobs indexed by jobs_ready
             where state = 'pending' and stage = 'ready' and queue = :queue and tenant > :tenant
             order by tenant, rank limit 1),
           (select id from jobs indexed by jobs_ready
             where state = 'pending' and stage = 'ready' and queue > :queue
             order by queue, tenant, rank limit 1))
    union all
    select following.queue, following.tenant, following.rank
      from oldest
     cross join jobs as following
        on following.id = coalesce(
           case when oldest.queue not in (select value from json_each(:others))
                then (select id from jobs indexed by jobs_ready
                       where state = 'pending' and stage = 'ready' and queue = oldest.queue and tenant > oldest.tenant
                       order by tenant, rank limit 1) end,
           (select id from jobs indexed by jobs_ready
             where state = 'pending' and stage = 'ready' and queue > oldest.queue
             order by queue, tenant, rank limit 1))
    limit :steps
)
select queue, tenant, rank
  from oldest
 where queue not in (select value from json_each(:others))
 limit :limit

-- name: ready_ids (sqlite)
-- Up to :limit ready jobs of a tenant in a queue, by rank from :rank, with their sizes. Reads only the index
-- jobs_ready. SQLite's part of claim_jobs: a join over all shares would visit each row twice.
select id, size
  from jobs indexed by jobs_ready
 where state = 'pending' and stage = 'ready' and queue = :queue and tenant = :tenant and rank >= :rank
 order by rank, id
 limit :limit

-- name: release_job
-- Release a claimed job that was not started.
update jobs
   set state = 'pending', worker_id = null,
       stage = case when stage = 'paused' then stage when crashes >= 2 then 'suspect' else 'ready' end
 where id = :id and state = 'in_progress' and worker_id = :worker_id and attempt = :attempt

-- name: retry_job (sqlite)
-- Make a job pending again whose attempt ended, if (worker, attempt) still has it claimed. Run once a row.
update jobs
   set state = 'pending', due_at = :due_at, failures = :failures, crashes = :crashes, error = :error, worker_id = null,
       rank = :due_at - priority * 60000,
       stage = case when stage = 'paused' then stage when :crashes >= 2 then 'suspect' else 'waiting' end
 where id = :id and state = 'in_progress' and worker_id = :worker_id and attempt = :attempt
   and (stop = 0 or kind = 'mutation')
returning started_at

-- name: retry_jobs (postgres)
-- Make jobs pending again whose attempt ended, if (worker, attempt) still has them claimed, and store the attempt.
-- As finish_jobs, many in one statement.
with e as materialized (
    select *
      from json_to_recordset(:rows::json)
           as e (id text, attempt integer, started_at bigint, ended_at bigint, due_at bigint, failures integer,
                 crashes integer, outcome text, error text)
), ended as (
    update jobs
       set state = 'pending', due_at = e.due_at, failures = e.failures, crashes = e.crashes, error = e.error,
           worker_id = null, rank = e.due_at - jobs.priority * 60000,
           stage = case when jobs.stage = 'paused' then 'paused' when e.crashes >= 2 then 'suspect' else 'waiting' end
      from e
     where jobs.id = any (array(select id from e)) and jobs.id = e.id
       and (jobs.state, jobs.worker_id, jobs.attempt) is not distinct from ('in_progress', :worker_id, e.attempt)
       and (jobs.stop = 0 or jobs.kind = 'mutation')
    returning jobs.id, e.attempt, coalesce(e.started_at, jobs.started_at) as began_at, e.ended_at, e.outcome, e.error
)
insert into attempts (job_id, attempt, worker_id, started_at, ended_at, outcome, error)
select ended.id, ended.attempt, :worker_id, ended.began_at, ended.ended_at, ended.outcome, ended.error
  from ended
returning job_id

-- name: stops_asked
-- Which of these jobs were asked to stop. :ids is a JSON list. One that was terminated has ended.
select id, stop
  from jobs
 where id in {list :ids} and stop > 0
union all
select id, stop
  from history
 where id in {list :ids} and stop > 0

-- name: suspects
-- The earliest pending jobs that two or more of their workers did not survive. Reads the index jobs_suspect.
select id, tenant, queue, due_at, pool, name, limit_key
  from jobs
 where state = 'pending' and stage = 'suspect'
 order by due_at, id
 limit :limit

-- name: waits_for_copies (postgres)
-- Whether commits wait for a standby. Only PostgreSQL has standbys.
select current_setting('synchronous_standby_names') <> '' and current_setting('synchronous_commit') not in ('off', 'local')
