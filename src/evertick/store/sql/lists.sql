-- part: attributed
-- Whether a run has the other attributes, too. :others is a JSON list of texts such as 'stage="paid"'.
   and not exists (select 1
                     from {each :others} as o
                    where not exists (select 1
                                        from workflow_attributes as a
                                       where a.run_id = id and a.name || '=' || a.value = o.each))

-- part: found
-- The runs with an attribute that a page of a list scans.
(select run_id
   from workflow_attributes
  where tenant = :tenant and name = :attribute and value = :attribute_value
    and run_id {beyond} :beyond and run_id {within} :horizon)

-- part: names
-- The functions of a tenant's unfinished jobs: one step of the index jobs_by_name for each.
with recursive names (name) as (
    select (select name from jobs where tenant = :tenant order by name limit 1)
    union all
    select (select name from jobs where tenant = :tenant and name > names.name order by name limit 1)
      from names
     where names.name is not null
)
select name
  from names
 where name is not null

-- part: narrowed
-- Further filters on a row of jobs or history; a null one does not filter. {says} tests whether :error is part of an
-- error's type and message as they are shown, in lower case and with JSON's escapes. :in_pool is "/mail", the end of
-- the full name of a pool, "shop/mail". It shares a condition with :due_until: with one more, SQLite sorts rows that an
-- index has in order. So do others. The job of an occurrence was requested for its nominal time.
   and case when cast(:name as text) is null or name = :name
            then cast(:schedule_id as text) is null or schedule_id = :schedule_id
            else false end
   and case when cast(:parent_id as text) is null or parent_id = :parent_id
            then cast(:occurrence_from as bigint) is null
                 or (schedule_id is not null and requested_at >= :occurrence_from and requested_at < :occurrence_until)
            else false end
   and (cast(:key as text) is null or key = :key)
   and case when cast(:limit_key as text) is null or limit_key = :limit_key
            then cast(:due_from as bigint) is null or due_at >= :due_from else false end
   and case when cast(:in_pool as text) is null
                 or substr('/' || coalesce(pool, 'default'),
                           2 + length(coalesce(pool, 'default')) - length(cast(:in_pool as text))) = :in_pool
            then cast(:due_until as bigint) is null or due_at < :due_until
            else false end
   and (cast(:kind as text) is null and (:without_runs = 0 or kind <> 'workflow') or kind = :kind and (
        cast(:prefix as text) is null or substr(key, 1, length(cast(:prefix as text))) = :prefix))
   and case when :roots = 0 or {is root} then cast(:error as text) is null or {says} else false end

-- part: open
-- The filter on a row of jobs that is a workflow run: whether its state is among :open_states; null for any. See
-- `RunView.of`.
   and (cast(:open_states as text) is null or :open_states like '%' || case
        when stage = 'paused' then 'paused' when attempt > 1 or attempt = 1 and state = 'pending' then 'running' else 'pending' end || '%')

-- part: queues
-- The queues with ready jobs, and those with jobs that are held for their keys: after the last of each, one row of
-- null. One step of the index jobs_ready for each queue, and of jobs_by_limit_key for each with held jobs. No queue is
-- below 0: SQLite searches the index where it would otherwise scan it.
ready (due) as (
    select (select queue from jobs where state = 'pending' and stage = 'ready' and queue >= 0 order by queue limit 1)
    union all
    select (select queue from jobs where state = 'pending' and stage = 'ready' and queue > ready.due
             order by queue limit 1)
      from ready
     where ready.due is not null
), held (due) as (
    select (select queue from jobs where state = 'pending' and stage = 'held' and limit_key is not null
             order by queue limit 1)
    union all
    select (select queue from jobs where state = 'pending' and stage = 'held' and limit_key is not null
               and queue > held.due
             order by queue limit 1)
      from held
     where held.due is not null
)

-- name: due_queues
-- The functions, pools and queues of a tenant's due jobs. One step of the index jobs_ready for each queue, and of
-- jobs_by_limit_key for each with held jobs; of jobs that are not made ready yet, and of suspects, the first :scan_max
-- of all tenants.
with recursive {queues}
select name, pool, queue
  from ready
  join jobs on id = (select id
                       from jobs
                      where state = 'pending' and stage = 'ready' and queue = ready.due and tenant = :tenant
                      order by rank, id
                      limit 1)
union all
select name, pool, queue
  from held
  join jobs on id = (select id
                       from jobs
                      where state = 'pending' and stage = 'held' and limit_key is not null and queue = held.due
                        and tenant = :tenant
                      order by limit_key, rank, id
                      limit 1)
union all
select name, pool, queue from {soonest waiting :now :scan_max: name, pool, queue} as waiting where tenant = :tenant
union all
select name, pool, queue from {soonest suspect :now :scan_max: name, pool, queue} as suspects where tenant = :tenant

-- name: edge_by_attribute
-- As edge_finished, of the runs with an attribute.
select run_id
  from workflow_attributes
 where tenant = :tenant and name = :attribute and value = :attribute_value and run_id {beyond} :beyond
 order by run_id {order}
 limit 1
offset :skip

-- name: edge_finished
-- The last of the :skip + 1 rows that list_finished scans, in the order of its index; none if there are fewer.
select id
  from history
 where tenant = :tenant {by} and state = :state and {id} {beyond} :beyond
 order by {id} {order}
 limit 1
offset :skip

-- name: edge_unfinished
-- As edge_finished, of list_unfinished.
select id
  from jobs
 where tenant = :tenant {by} and state in ('pending', 'in_progress') and {id} {beyond} :beyond
 order by {id} {order}
 limit 1
offset :skip

-- name: edge_unfinished_of_all
-- As edge_finished, for each function in the JSON list :names.
select (select id
          from jobs
         where tenant = :tenant and name = names.each and {id} {beyond} :beyond
         order by {id} {order}
         limit 1
        offset :skip)
  from {each :names} as names

-- name: edge_waiting
-- The end of a scan of list_waiting, after :skip jobs of all tenants, if there are more.
select due_at, id
  from jobs {indexed by jobs_waiting}
 where state = 'pending' and stage = 'waiting'
   and (due_at, id) > (:beyond_at, :beyond_id) and (due_at, id) <= (:horizon_at, :horizon_id)
 order by due_at, id
 limit 1
offset :skip

-- name: errors_of
-- The beginnings of the errors of the finished jobs with the ids in the JSON list :ids: type and message, with JSON's
-- escapes. Unordered.
select id, substr({error}, 1, 200)
  from history
 where id in {list :ids} and (tenant || '') = :tenant and error is not null

-- name: failed_since (postgres)
-- As SQLite's; the list is read with PostgreSQL's own function.
select h.tenant, h.name, h.completed_at, h.id, h.retried_as
  from json_array_elements_text(:tenants::json) as t (each)
 cross join lateral (select tenant, name, completed_at, id, retried_as
                       from history
                      where tenant = t.each and state = 'failed' and completed_at >= :since
                      order by completed_at desc
                      limit :limit) as h
 limit :limit

-- name: failed_since (sqlite)
-- Jobs of the tenants in the JSON list :tenants that failed at :since or later, at most :limit, with the
-- jobs as which they run again. Reads the index history_failed.
select h.tenant, h.name, h.completed_at, h.id, h.retried_as
  from json_each(:tenants) as t
 cross join history as h indexed by history_failed
    on h.tenant = t.value
 where h.state = 'failed' and h.completed_at >= :since
 limit :limit

-- name: job_groups (postgres)
-- As SQLite's; a lateral join takes the jobs of each tenant.
select tenant, name, pool, doing, count(*), min(due_at)
  from (select j.tenant, j.name, j.pool, j.due_at,
               case when j.state = 'in_progress' and j.kind = 'action' then 'running' when j.due_at > :now or j.stage = 'paused' then 'later'
                    when j.state = 'pending' then 'due' else 'claimed' end as doing
          from json_array_elements_text(:tenants::json) as t (each)
         cross join lateral (select * from jobs where tenant = t.each order by name limit :limit) as j
         limit :limit) as scanned
 group by tenant, name, pool, doing

-- name: job_groups (sqlite)
-- The unfinished jobs of the tenants in the JSON list :tenants, by function, pool and state: how many, and the earliest
-- due time. Reads at most :limit jobs, by the index jobs_by_name.
select tenant, name, pool, doing, count(*), min(due_at)
  from (select j.tenant, j.name, j.pool, j.due_at,
               case when j.state = 'in_progress' and j.kind = 'action' then 'running' when j.due_at > :now or j.stage = 'paused' then 'later'
                    when j.state = 'pending' then 'due' else 'claimed' end as doing
          from json_each(:tenants) as t
         cross join jobs as j indexed by jobs_by_name
            on j.tenant = t.value
         limit :limit) as scanned
 group by tenant, name, pool, doing

-- name: list_finished
-- A tenant's finished jobs in :state, after the id :beyond and up to :horizon, at most :limit. The words in braces are
-- replaced when the statement is loaded. Reads the index of history that begins with the column of {by}.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt, failures,
       crashes, null, parent_id, key, schedule_id, pool, priority, stop, retried_as
  from history
 where tenant = :tenant {by} and state = :state and {id} {beyond} :beyond and {id} {within} :horizon
{narrowed}
 order by {id} {order}
 limit :limit

-- name: list_finished_by_attribute (postgres)
-- As list_finished, of the runs with an attribute: at most SCAN_MAX of them are up to :horizon.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt, failures,
       crashes, null, parent_id, key, schedule_id, pool, priority, stop, retried_as
  from history
 where id = any (array{found}) and (tenant || '') = :tenant
   and state = :state
   and (:unretried = 0 or retried_as is null)
{narrowed}
{attributed}
 order by id {order}
 limit :limit

-- name: list_finished_by_attribute (sqlite)
-- As list_finished, of the runs with an attribute: at most SCAN_MAX of them are up to :horizon.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, completed_at, attempt, failures,
       crashes, null, parent_id, key, schedule_id, pool, priority, stop, retried_as
  from {found} as found
 cross join history
 where id = found.run_id and +tenant = :tenant and +state = :state
   and (:unretried = 0 or retried_as is null)
{narrowed}
{attributed}
 order by found.run_id {order}
 limit :limit

-- name: list_running
-- As list_finished, of running actions. Reads the index jobs_running, which is short, and sorts.
-- `tenant || ''` keeps PostgreSQL from the indexes of all a tenant's jobs.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, cast(null as bigint), attempt,
       failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, cast(null as text)
  from {running}
 where state = 'in_progress' and worker_id > '' and kind = 'action' and (tenant || '') = :tenant and {id} {beyond} :beyond
   and {id} {within} :horizon
{narrowed}
 order by {id} {order}
 limit :limit

-- name: list_unfinished
-- As list_finished, of unfinished jobs. Reads an index of jobs that begins with the column of {by}. A claimed mutation
-- counts as pending; running actions are omitted unless :with_running is 1.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, cast(null as bigint), attempt,
       failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, cast(null as text)
  from jobs
 where tenant = :tenant {by} and state in ('pending', 'in_progress') and {id} {beyond} :beyond and {id} {within} :horizon
   and (:with_running = 1 or state <> 'in_progress' or kind <> 'action')
{open}
{narrowed}
 order by {id} {order}
 limit :limit

-- name: list_unfinished_by_attribute (postgres)
-- As list_unfinished, of the runs with an attribute: at most SCAN_MAX of them are up to :horizon.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, cast(null as bigint), attempt,
       failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, cast(null as text)
  from jobs
 where id = any (array{found}) and (tenant || '') = :tenant
   and state in ('pending', 'in_progress') and (:with_running = 1 or state <> 'in_progress' or kind <> 'action')
{open}
{narrowed}
{attributed}
 order by id {order}
 limit :limit

-- name: list_unfinished_by_attribute (sqlite)
-- As list_unfinished, of the runs with an attribute: at most SCAN_MAX of them are up to :horizon.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, cast(null as bigint), attempt,
       failures, crashes, worker_id, parent_id, key, schedule_id, pool, priority, stop, cast(null as text)
  from {found} as found
 cross join jobs
 where id = found.run_id and +tenant = :tenant and +state in ('pending', 'in_progress') and (:with_running = 1 or state <> 'in_progress' or kind <> 'action')
{open}
{narrowed}
{attributed}
 order by found.run_id {order}
 limit :limit

-- name: list_unfinished_of_all (postgres)
-- As SQLite's; a lateral join takes the jobs of each function.
select j.id, j.tenant, j.kind, j.name, j.state, j.requested_at, j.due_at, j.created_at, j.started_at,
       cast(null as bigint), j.attempt, j.failures, j.crashes, j.worker_id, j.parent_id, j.key, j.schedule_id,
       j.pool, j.priority, j.stop, cast(null as text)
  from json_array_elements_text(:names::json) as names (each)
 cross join lateral (select *
                       from jobs
                      where tenant = :tenant and name = names.each and {id} {beyond} :beyond and {id} {within} :horizon
                        and (:with_running = 1 or state <> 'in_progress' or kind <> 'action')
                        and (cast(:queues as text) is null
                             or state = 'pending' and position(' ' || queue || ' ' in :queues) > 0)
{open}
{narrowed}
                      order by {id} {order}
                      limit :limit) as j
 order by j.id {order}
 limit :limit

-- name: list_unfinished_of_all (sqlite)
-- As list_unfinished, of the functions in the JSON list :names. Takes at most :limit jobs of each
-- by the index jobs_by_name, and sorts those. :queues are those to which the jobs belong, with a space around each.
select j.id, j.tenant, j.kind, j.name, j.state, j.requested_at, j.due_at, j.created_at, j.started_at,
       cast(null as bigint), j.attempt, j.failures, j.crashes, j.worker_id, j.parent_id, j.key, j.schedule_id,
       j.pool, j.priority, j.stop, cast(null as text)
  from json_each(:names) as names
 cross join jobs as j
    on j.id in (select id
                  from jobs
                 where tenant = :tenant and name = names.value and {id} {beyond} :beyond and {id} {within} :horizon
                   and (:with_running = 1 or state <> 'in_progress' or kind <> 'action')
                   and (:queues is null or state = 'pending' and instr(:queues, ' ' || queue || ' ') > 0)
{open}
{narrowed}
                 order by {id} {order}
                 limit :limit)
 order by j.id {order}
 limit :limit

-- name: list_waiting
-- A tenant's jobs that wait for their time, the soonest first: after one position and up to another. Reads the index
-- jobs_waiting, which has those of all tenants; PostgreSQL would otherwise read all of the tenant and sort them.
select id, tenant, kind, name, state, requested_at, due_at, created_at, started_at, null, attempt, failures, crashes,
       worker_id, parent_id, key, schedule_id, pool, priority, stop, cast(null as text)
  from jobs {indexed by jobs_waiting}
 where state = 'pending' and stage = 'waiting' and tenant || '' = :tenant
   and (due_at, id) > (:beyond_at, :beyond_id) and (due_at, id) <= (:horizon_at, :horizon_id)
   and {id} > :low and {id} < :high
{narrowed}
 order by due_at, id
 limit :limit

-- name: unfinished_names
-- The functions of a tenant's unfinished jobs.
{names}

-- name: unfinished_workflows
-- The functions of a tenant's unfinished jobs whose latest one is the run of a workflow.
{names}
   and 'workflow' = (select kind from jobs where tenant = :tenant and name = names.name order by {id} desc limit 1)
