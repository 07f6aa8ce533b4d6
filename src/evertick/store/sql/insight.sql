-- part: changes
-- The newest lines of the histories of a tenant's schedules, and of its audit log. Reads the index
-- schedule_history_newest. If the tenant were one condition, PostgreSQL would not use that order: it would search among
-- the newest lines of all tenants. The action in a schedule's history begins like that of the audit log.
select at, actor, 'schedule.' || action as action, schedule_id as target, detail, 1 as is_history
  from (select *
          from schedule_history
         where tenant between :tenant and :tenant
         order by tenant desc, id desc
         limit :newest) as histories
union all
select at, actor, action, target, '', 0
  from (select *
          from audit_log
         where tenant = :tenant
         order by id desc
         limit :newest) as audited

-- part: coming
-- Rows 0: the specs of a tenant's schedules that are due before an instant, of the first :limit. Rows 1: the number of
-- the span from :start on in which waiting jobs of the tenant are due, without workflow runs; rows 2: other jobs; of
-- the first :scan_max of all tenants. Reads the indexes schedules_by_next and jobs_waiting.
select 0 as part, spec as what, count(*) as number
  from (select spec
          from schedules
         where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :until
         order by coalesce(next_at, 9223372036854775807), id
         limit :limit) as coming
 group by spec
union all
select case when tenant = :tenant and kind <> 'workflow' then 1 else 2 end as part,
       cast((due_at - :start) / :span as text) as what, count(*) as number
  from (select tenant, kind, due_at
          from jobs
         where state = 'pending' and stage = 'waiting' and due_at > :now and due_at < :until
         order by due_at, id
         limit :scan_max) as waiting
 group by part, what

-- part: slots
-- The counts of all functions of a tenant in each span of :slot milliseconds since :day_ago, and their lateness: the
-- spreads of its minutes, added up. Reads the primary key.
select done.slot, done.ended, done.failed, done.canceled, done.retried, spread.late
  from (select at / :slot * :slot as slot, sum(ended) as ended, sum(failed) as failed, sum(canceled) as canceled,
               sum(retried) as retried
          from activity
         where tenant = :tenant and name = '' and at >= :day_ago
         group by 1) as done
  left join (select slot, {json of bucket, runs} as late
               from (select at / :slot * :slot as slot, part.key as bucket, sum(cast(part.value as bigint)) as runs
                       from activity
                      cross join {pairs of late} as part
                      where tenant = :tenant and name = '' and at >= :day_ago
                      group by 1, 2) as parts
              group by slot) as spread on spread.slot = done.slot

-- name: activity_by_function
-- How often each function of a tenant was run and failed in the last hour and day; and in rows without a name, the
-- result of `activity_by_slot`. Reads the primary key.
select name, 0, sum(case when at >= :hour_ago then ended else 0 end), sum(case when at >= :hour_ago then failed else 0 end),
       sum(ended), sum(failed), 0, 0, null
  from activity
 where tenant = :tenant and name > '' and at >= :day_ago
 group by name
union all
select '', slot, 0, 0, ended, failed, canceled, retried, late
  from ({slots}) as slots
 order by 1, 2

-- name: activity_by_minute
-- The counts of each minute since an instant, by worker; or with a name those of one function in each ten minutes.
-- Reads the primary key.
select at, ended, failed, canceled, retried, late, took
  from activity
 where tenant = :tenant and name = :name and at >= :since
 order by at

-- name: activity_by_pool
-- The counts of a tenant's jobs in each pool in each ten minutes since an instant, without lateness. Reads the primary
-- key.
select pool, at, sum(ended), sum(failed), sum(canceled), sum(retried)
  from pool_activity
 where tenant = :tenant and at >= :since
 group by pool, at
 order by pool, at

-- name: activity_by_slot
-- The counts of all functions of a tenant in each span of :slot milliseconds since :day_ago, and their lateness.
select slot, ended, failed, canceled, retried, late
  from ({slots}) as slots
 order by slot

-- name: activity_of_pool
-- The counts of a tenant's jobs in one pool in each ten minutes since an instant, by worker. Reads the primary key.
select at, ended, failed, canceled, retried, late, null
  from pool_activity
 where tenant = :tenant and pool = :pool and at >= :since
 order by at

-- name: add_activity
-- Add to the counts of spans.
insert into activity {rows: tenant text, name text, at bigint, source text, ended bigint, failed bigint,
    canceled bigint, retried bigint, late text, took text}
on conflict (tenant, name, at, source)
   do update set ended = activity.ended + excluded.ended, failed = activity.failed + excluded.failed,
                 canceled = activity.canceled + excluded.canceled, retried = activity.retried + excluded.retried,
                 late = coalesce(excluded.late, activity.late), took = coalesce(excluded.took, activity.took)

-- name: add_pool_activity
-- Add to the counts of pools' spans. The lateness is that of the whole span so far.
insert into pool_activity {rows: tenant text, pool text, at bigint, source text, ended bigint, failed bigint,
    canceled bigint, retried bigint, late text}
on conflict (tenant, pool, at, source)
   do update set ended = pool_activity.ended + excluded.ended, failed = pool_activity.failed + excluded.failed,
                 canceled = pool_activity.canceled + excluded.canceled,
                 retried = pool_activity.retried + excluded.retried,
                 late = coalesce(excluded.late, pool_activity.late)

-- name: coming
-- How many schedules have which spec, of those that are due first; and how many jobs are due in which span.
{coming}

-- name: coming_and_changes
-- The rows of `coming`, and those of `recent_changes` as rows 3.
select part, number, '', '', what, '', 0
  from ({coming}) as comes
union all
select 3, at, actor, action, target, detail, is_history
  from ({changes}) as lines

-- name: due_jobs (postgres)
-- As SQLite's; a lateral join makes PostgreSQL read each queue separately.
with recursive {queues}
select name, pool, count(*), min(due_at), sum(case when due_at < :late_at then 1 else 0 end)
  from (select * from (select j.name, j.pool, j.due_at
                  from ready
                 cross join lateral (select name, pool, due_at
                                       from jobs
                                      where state = 'pending' and stage = 'ready'
                                        and queue = ready.due and tenant = :tenant
                                      order by rank, id
                                      limit :limit) as j
                 limit :limit) as of_ready
        union all
        select * from (select j.name, j.pool, j.due_at
                  from held
                 cross join lateral (select name, pool, due_at
                                       from jobs
                                      where state = 'pending' and stage = 'held' and limit_key is not null
                                        and queue = held.due and tenant = :tenant
                                      order by limit_key, rank, id
                                      limit :limit) as j
                 limit :limit) as of_held
        union all
        select name, pool, due_at from {soonest waiting :now :limit: name, pool, due_at} as of_waiting where tenant = :tenant
        union all
        select name, pool, due_at from {soonest suspect :now :limit: name, pool, due_at} as of_suspect where tenant = :tenant) as due
 group by name, pool

-- name: due_jobs (sqlite)
-- A tenant's due jobs by function and pool: how many, since when, and how many are late. Of those that are ready or held
-- back, the first :limit; of those that are not made ready yet and of suspects, those among the first :limit of all tenants.
-- Reads the indexes jobs_ready, jobs_by_limit_key, jobs_waiting and jobs_suspect.
with recursive {queues}
select name, pool, count(*), min(due_at), sum(case when due_at < :late_at then 1 else 0 end)
  from (select * from (select j.name, j.pool, j.due_at
                  from ready
                  join jobs as j indexed by jobs_ready
                    on j.state = 'pending' and j.stage = 'ready'
                   and j.queue = ready.due and j.tenant = :tenant
                 limit :limit)
        union all
        select * from (select j.name, j.pool, j.due_at
                  from held
                  join jobs as j indexed by jobs_by_limit_key
                    on j.state = 'pending' and j.stage = 'held' and j.limit_key is not null
                   and j.queue = held.due and j.tenant = :tenant
                 limit :limit)
        union all
        select name, pool, due_at from {soonest waiting :now :limit: name, pool, due_at} as of_waiting where tenant = :tenant
        union all
        select name, pool, due_at from {soonest suspect :now :limit: name, pool, due_at} as of_suspect where tenant = :tenant) as due
 group by name, pool

-- name: evaluated_before
-- When a worker last evaluated a time of a schedule of any tenant before each instant in the JSON list :moments. Reads
-- the index occurrences_decided from there backwards.
select cast(m.each as bigint),
       (select decided_at
          from occurrences
         where decided_at < cast(m.each as bigint) and origin = 'schedule'
         order by decided_at desc
         limit 1)
  from {each :moments} as m

-- name: failing_schedules
-- The first :limit schedules of all tenants whose last run failed. Reads the index schedules_failing.
select tenant, id, function, 1
  from schedules {indexed by schedules_failing}
 where failing = 1
 order by tenant, failing, id
 limit :limit

-- name: first_missed (postgres)
-- As SQLite's; a lateral join makes PostgreSQL read each reason separately, and an order that only the index
-- occurrences_by_reason has keeps it from searching the reason in the whole ledger.
select min(early.nominal_at), min(early.actual_at)
  from {each :reasons} as r
 cross join lateral (select nominal_at, actual_at, decided_at
                       from occurrences
                      where tenant = :tenant and reason between r.each and r.each and nominal_at >= :since
                      order by reason, nominal_at
                      limit :limit) as early
 where early.decided_at >= :decided

-- name: first_missed (sqlite)
-- The first nominal time that was missed for one of some reasons and judged at :decided or later, and the first instant
-- at which such a run was due; among the first :limit missed times of each reason since :since. Reads the index
-- occurrences_by_reason.
select min((select min(nominal_at)
              from (select nominal_at, decided_at
                      from occurrences
                     where tenant = :tenant and reason = r.each and nominal_at >= :since
                     order by nominal_at
                     limit :limit)
             where decided_at >= :decided)),
       min((select min(actual_at)
              from (select actual_at, decided_at
                      from occurrences
                     where tenant = :tenant and reason = r.each and nominal_at >= :since
                     order by nominal_at
                     limit :limit)
             where decided_at >= :decided))
  from {each :reasons} as r

-- name: found_jobs (postgres)
-- As SQLite's; lateral joins make PostgreSQL read the end of each state and of each function separately.
with found (id) as (
    (select id from history where tenant = :tenant and key >= :text and key < :beyond limit :limit)
    union all
    (select id from jobs
      where tenant = :tenant and key >= :text and key < :beyond and state in ('pending', 'in_progress')
      limit :limit)
    union all
    {for rows by in history state, jobs name}
    (select r.id
       from {each :{by}s} as e
      cross join lateral (select id from {rows}
                           where tenant = :tenant and {by} = e.each and (id || '') >= :text and (id || '') < :beyond
                           order by (id || '') limit :limit) as r
      limit :limit)
    union all
    (select r.id
       from {each :{by}s} as e
      cross join lateral (select id, key from {rows} where tenant = :tenant and {by} = e.each
                           order by (id || '') desc limit :others_{by} + 1) as r
      where position(:text in r.id) > 0 or position(:text in r.key) > 0
      limit :limit)
    {then union all}
)
select id, kind, name, state, key from jobs where id = any (array(select id from found))
union all
select id, kind, name, state, key from history where id = any (array(select id from found))

-- name: found_jobs (sqlite)
-- A tenant's jobs whose key or id begins with :text (and is below :beyond), and those whose id or key contains it,
-- among the :others_state + 1 newest of each state of ended ones and the :others_name + 1 newest of each function in
-- :names of unfinished ones. At most :limit of each way. Reads the indexes of keys, history_by_state and jobs_by_name,
-- and the scanned rows. :states come as JSON: with a list of values, SQLite would make a Bloom filter of the whole
-- history.
with found (id) as (
    select id
      from (select id from history indexed by history_by_key
             where tenant = :tenant and key >= :text and key < :beyond limit :limit)
    union
    select id
      from (select id from jobs indexed by jobs_key
             where tenant = :tenant and key >= :text and key < :beyond and state in ('pending', 'in_progress')
             limit :limit)
    union
    {for rows by in history state, jobs name}
    select id
      from (select r.id
              from {each :{by}s} as e
             cross join {rows} as r indexed by {rows}_by_{by}
             where r.tenant = :tenant and r.{by} = e.each and r.id >= :text and r.id < :beyond
             limit :limit)
    union
    select id
      from (select r.id
              from {each :{by}s} as e
             cross join {rows} as r indexed by {rows}_by_{by}
             where r.tenant = :tenant and r.{by} = e.each and (instr(r.id, :text) > 0 or instr(r.key, :text) > 0)
               and r.id >= coalesce((select edge.id from {rows} as edge indexed by {rows}_by_{by}
                                      where edge.tenant = :tenant and edge.{by} = e.each
                                      order by edge.id desc limit 1 offset :others_{by}), '')
             limit :limit)
    {then union}
)
select id, kind, name, state, key from jobs where id in (select id from found)
union all
select id, kind, name, state, key from history where id in (select id from found)

-- name: missed_and_skipped (postgres)
-- As SQLite's; a lateral join makes PostgreSQL read the end of each reason, and an order that only the index
-- occurrences_by_reason has keeps it from searching the reason in the whole ledger.
-- Not "exists": PostgreSQL would read the whole ledger once to find all times that were caught up.
select o.schedule_id, o.nominal_at, r.each, o.detail, o.actual_at, o.decided_at,
       (select 1
          from occurrences as later
         where later.tenant = :tenant and later.schedule_id = o.schedule_id and later.nominal_at = o.nominal_at
           and later.origin in ('backfill', 'trigger') and later.fate = 'started'
         limit 1) is not null
  from {each :reasons} as r
 cross join lateral (select schedule_id, nominal_at, detail, actual_at, decided_at
                       from occurrences
                      where tenant = :tenant and reason between r.each and r.each and nominal_at >= :since
                      order by reason desc, nominal_at desc
                      limit :limit) as o
union all
select p.id, (select count(*)
                from (select 1
                        from occurrences
                       where tenant = :tenant and schedule_id = p.id and nominal_at >= p.since and reason || '' = 'paused'
                       limit :skipped_most) as skipped), 'paused', '', 0, 0, false
  from (select value ->> 0 as id, (value ->> 1)::bigint as since from json_array_elements(:pauses::json)) as p

-- name: missed_and_skipped (sqlite)
-- The newest occurrences that were missed since an instant, at most :limit of each reason, and whether a trigger or a
-- backfill has started them since. And how many times each of some schedules skipped since an instant because it is
-- paused, to :skipped_most at most, in place of a time; :pauses is a JSON list of [id, instant]. Reads the index
-- occurrences_by_reason, and the primary key.
select o.schedule_id, o.nominal_at, o.reason, o.detail, o.actual_at, o.decided_at,
       exists (select 1
                 from occurrences as later
                where later.tenant = :tenant and later.schedule_id = o.schedule_id and later.nominal_at = o.nominal_at
                  and later.origin in ('backfill', 'trigger') and later.fate = 'started')
  from {each :reasons} as r
 cross join occurrences as o
 where o.tenant = :tenant and o.reason = r.each
   and o.nominal_at >= max(:since, coalesce((select edge.nominal_at
                                                 from occurrences as edge
                                                where edge.tenant = :tenant and edge.reason = r.each
                                                order by edge.nominal_at desc
                                                limit 1 offset :limit), :since))
union all
select p.id, (select count(*)
                from (select 1
                        from occurrences
                       where tenant = :tenant and schedule_id = p.id and nominal_at >= p.since and reason || '' = 'paused'
                       limit :skipped_most) as skipped), 'paused', '', 0, 0, 0
  from (select json_extract(value, '$[0]') as id, json_extract(value, '$[1]') as since from json_each(:pauses)) as p

-- name: missed_occurrences
-- The first :limit schedules, of a tenant or of all, that were found since :since to have missed times, with the number
-- of these times that no trigger or backfill has run. They are counted among the :scan_max newest occurrences of each.
-- Reads the index schedules_missed, which has only schedules that ever missed a time, and the primary key of
-- occurrences.
select tenant, id, function, missed
  from (select s.tenant, s.id, s.function,
               (select count(*)
                  from (select o.nominal_at, o.fate, o.decided_at
                          from occurrences as o
                         where o.tenant = s.tenant and o.schedule_id = s.id
                         order by o.nominal_at desc
                         limit :scan_max) as newest
                 where newest.fate = 'missed' and newest.decided_at >= :since
                   and not exists (select 1
                                     from occurrences as later
                                    where later.tenant = s.tenant and later.schedule_id = s.id
                                      and later.nominal_at = newest.nominal_at
                                      and later.origin in ('backfill', 'trigger')
                                      and later.fate = 'started')) as missed
          from (select tenant, id, function
                  from schedules {indexed by schedules_missed}
                 where missed_at >= :since and (cast(:tenant as text) is null or tenant = :tenant)
                 order by tenant, missed_at, id
                 limit :limit) as s) as counted
 where missed > 0

-- name: next_due
-- When the next job of each function of a tenant is due, as far as it is among the first :limit that wait. Reads the
-- index jobs_waiting.
select name, min(due_at)
  from (select name, tenant, due_at
          from jobs
         where state = 'pending' and stage = 'waiting'
         order by due_at, id
         limit :limit) as waiting
 where tenant = :tenant
 group by name

-- name: overdue_schedules (postgres)
-- As SQLite's; a lateral join takes the schedules of each tenant, in the order of the index.
select tenant, count(*), min(next_at)
  from (select s.tenant, s.next_at
          from json_array_elements_text(:tenants::json) as t (each)
         cross join lateral (select tenant, next_at
                               from schedules
                              where tenant = t.each and coalesce(next_at, 9223372036854775807) < :late_at
                              order by coalesce(next_at, 9223372036854775807), id
                              limit :limit) as s
         limit :limit) as overdue
 group by tenant

-- name: overdue_schedules (sqlite)
-- How many schedules of the tenants in the JSON list :tenants have a next time before :late_at, and since when.
-- Reads at most :limit of them, by the index schedules_by_next.
select tenant, count(*), min(next_at)
  from (select s.tenant, s.next_at
          from json_each(:tenants) as t
         cross join schedules as s indexed by schedules_by_next
            on s.tenant = t.value and coalesce(s.next_at, 9223372036854775807) < :late_at
         limit :limit) as overdue
 group by tenant

-- name: pool_endings
-- A tenant's newest :limit jobs that have ended: pool, state, when each was due, started and ended, and the job as
-- which it runs again. A workflow run goes through its pool many times, so it is counted, and has no start here. Reads
-- the index history_by_state.
select pool, state, due_at, case when kind = 'workflow' then null else started_at end, completed_at, retried_as
  from ({for state in success, failed, canceled}
        select *
          from (select id, kind, pool, state, due_at, started_at, completed_at, retried_as
                  from history
                 where tenant = :tenant and state = '{state}'
                 order by {id} desc
                 limit :limit) as {state}
        {then union all}) as ended
 order by id desc
 limit :limit

-- name: prune_activity
-- Remove at most :limit rows of spans before :before. Reads the index activity_at.
delete from activity
 where (tenant, name, at, source) in (select tenant, name, at, source
                                        from activity
                                       where at < :before
                                       order by at
                                       limit :limit)

-- name: prune_pool_activity
-- Remove at most :limit rows of spans of pools before :before. Reads the index pool_activity_at.
delete from pool_activity
 where (tenant, pool, at, source) in (select tenant, pool, at, source
                                        from pool_activity
                                       where at < :before
                                       order by at
                                       limit :limit)

-- name: recent_changes
-- The newest lines of the histories of schedules and of the audit log.
{changes}

-- name: samples (postgres)
-- As SQLite's; a lateral join makes PostgreSQL read the end of each function's part of the index history_by_name.
select n.each, h.started_at - h.due_at,
       h.completed_at - case h.kind when 'workflow' then h.created_at else h.started_at end
  from {each :names} as n
 cross join (values ('success'), ('failed')) as s (state)
 cross join lateral (select kind, created_at, started_at, due_at, completed_at
                       from history
                      where tenant = :tenant and name = n.each and state = s.state
                      order by (id || '') desc
                      limit :others + 1) as h
 where h.started_at is not null

-- name: samples (sqlite)
-- How late the newest ended jobs of some functions were started, and how long they took: for each function and state
-- those with the :others + 1 newest ids. A workflow run counts from its creation: its job starts again after each wait.
-- Reads the index history_by_name.
select h.name, h.started_at - h.due_at,
       h.completed_at - case h.kind when 'workflow' then h.created_at else h.started_at end
  from {each :names} as n
 cross join (select 'success' as state union all select 'failed') as s
 cross join history as h indexed by history_by_name
 where h.tenant = :tenant and h.name = n.each and h.state = s.state and h.started_at is not null
   and h.id >= coalesce((select edge.id
                           from history as edge indexed by history_by_name
                          where edge.tenant = :tenant and edge.name = n.each and edge.state = s.state
                          order by edge.id desc
                          limit 1 offset :others), '')

-- name: stuck_runs
-- Workflow runs of the tenants in the JSON list :tenants that cannot continue: they have an error while they wait. They
-- are retried soon, so only the first :scan_max jobs of all tenants that wait until :until are read. Reads the index
-- jobs_waiting.
select tenant, id, name, error, coalesce(started_at, created_at)
  from {soonest waiting :until :scan_max: id, name, kind, error, started_at, created_at} as soon
 where kind = 'workflow' and error is not null and tenant in (select t.each from {each :tenants} as t)
 order by id
 limit :limit

-- name: trouble (postgres)
-- As SQLite's; PostgreSQL's functions for JSON have other names, and a lateral join reads a schedule's newest
-- occurrences.
select (select cast(json_build_array(count(*), count(*) - count(retried_as)) as text)
          from (select retried_as
                  from history
                 where tenant = :tenant and state = 'failed' and completed_at >= :hour_ago
                 limit :limit) as failed),
       (select cast(json_build_array(
           (select count(*) from (select 1 from {each :reasons} as r
                                   cross join occurrences
                                   where tenant = :tenant and reason = r.each and nominal_at >= :month_ago
                                   limit 1) as one),
           (select count(*) from (select 1 from {each :reasons} as r
                                   cross join occurrences
                                   where tenant = :tenant and reason = r.each and nominal_at >= :day_ago
                                   limit :many) as lately)) as text)),
       (select count(*) from (select 1 from schedules
                               where tenant = :tenant and failing = 1 limit :limit) as failing),
       (select count(*) from (select 1 from schedules
                               where tenant = :tenant and status = 'paused' limit :limit) as paused),
       (select coalesce(json_agg(json_build_array(pool, note, paused)), '[]')::text
          from (select pool, note, paused
                  from pool_limits
                 where paused <> 0 or (starts_per_minute is not null and used_until_us > :now::bigint * 1000)
                 order by pool) as waiting),
       (select coalesce(json_agg(json_build_array(f.id, s.last_failure, coalesce(s.last_at, s.updated_at), ended.outcomes)
                                 order by f.place), '[]')::text
          from (select id, row_number() over () as place
                  from (select id
                          from schedules
                         where tenant = :tenant and failing = 1
                           and exists (select 1 from schedules where tenant = :tenant and failing = 1)
                         order by coalesce(last_at, -1) desc, id desc
                         limit :shown) as newest) as f
         cross join lateral (select last_failure, last_at, updated_at
                               from schedules
                              where tenant = :tenant and id = f.id) as s
         cross join lateral (select coalesce(json_agg(outcome), '[]') as outcomes
                               from (select outcome
                                       from occurrences
                                      where tenant = :tenant and schedule_id = f.id
                                      order by nominal_at desc, origin desc, request desc
                                      limit :runs) as newest) as ended),
       (select coalesce(json_agg(json_build_array(id, state)), '[]')::text
          from (select id, state
                  from schedules
                 where tenant = :tenant and status = 'paused'
                 order by id
                 limit :paused_max) as paused),
       (select coalesce(json_agg(json_build_array(id, name, error, tried_at)), '[]')::text
          from (select id, name, error, coalesce(started_at, created_at) as tried_at
                  from {soonest waiting :stuck_until :stuck_scan_max: id, name, kind, error, started_at, created_at} as soon
                 where kind = 'workflow' and error is not null and tenant = :tenant
                 order by id
                 limit :stuck_most) as stuck),
       (select cast(json_build_array(count(*), (select id
                                           from schedules
                                          where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :late_at
                                          order by coalesce(next_at, 9223372036854775807), id
                                          limit 1), min(next_at)) as text)
          from (select next_at
                  from schedules
                 where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :late_at
                 order by coalesce(next_at, 9223372036854775807), id
                 limit :limit) as overdue),
       (select coalesce(json_agg(json_build_array(name, jobs, at, id, (select error from history where id = f.id))
                                 order by at desc, name), '[]')::text
          from (select name, count(*) as jobs, max(completed_at) as at,
                       (array_agg(id order by completed_at desc))[1] as id
                  from (select name, completed_at, id, retried_as,
                               case when schedule_id is null then 0
                                    else (select count(*)
                                            from schedules as s
                                           where s.tenant = :tenant and s.id = h.schedule_id and s.failing = 1) end
                               as of_failing
                          from history as h
                         where tenant = :tenant and state = 'failed' and completed_at >= :hour_ago
                         limit :limit) as failed
                 where retried_as is null
                 group by name
                having count(*) > sum(of_failing)
                 order by at desc, name
                 limit :shown) as f)

-- name: trouble (sqlite)
-- The trouble of a tenant, in one row: how many jobs failed since an instant, and how many of these were not retried;
-- whether a time was missed in the last month, and how many in the last day, to :many; how many schedules are failing
-- and paused, to :limit; which pools are paused and why, and which have used their rate; the :shown failing schedules
-- that ran last with the outcomes of their :runs newest occurrences, and the state of the first :paused_max paused
-- ones; the workflow runs that cannot continue (they have an error while they wait and are retried until :stuck_until),
-- of the first :stuck_scan_max jobs that wait until then; and the functions with failures that no failing schedule
-- covers, with the number that was not retried, and the last of them (SQLite takes its id from the row with the
-- maximum). Reads the indexes history_failed, occurrences_by_reason, schedules_failing, schedules_paused,
-- schedules_by_last and jobs_waiting, and the primary key of occurrences. Lists are JSON.
select (select json_array(count(*), count(*) - count(retried_as))
          from (select retried_as
                  from history indexed by history_failed
                 where tenant = :tenant and state = 'failed' and completed_at >= :hour_ago
                 limit :limit)),
       (select json_array((select count(*) from (select 1 from {each :reasons} as r
                                                   cross join occurrences
                                                   where tenant = :tenant and reason = r.each and nominal_at >= :month_ago
                                                   limit 1)),
                          (select count(*) from (select 1 from {each :reasons} as r
                                                   cross join occurrences
                                                   where tenant = :tenant and reason = r.each and nominal_at >= :day_ago
                                                   limit :many)))),
       (select count(*) from (select 1 from schedules indexed by schedules_failing
                               where tenant = :tenant and failing = 1 limit :limit)),
       (select count(*) from (select 1 from schedules indexed by schedules_paused
                               where tenant = :tenant and status = 'paused' limit :limit)),
       (select json_group_array(json_array(pool, note, paused))
          from (select pool, note, paused
                  from pool_limits
                 where paused <> 0 or (starts_per_minute is not null and used_until_us > :now * 1000)
                 order by pool)),
       (select json_group_array(json_array(f.id, s.last_failure, coalesce(s.last_at, s.updated_at),
                                           (select json_group_array(outcome)
                                              from (select outcome
                                                      from occurrences
                                                     where tenant = :tenant and schedule_id = f.id
                                                     order by nominal_at desc, origin desc, request desc
                                                     limit :runs))))
          from (select id
                  from schedules indexed by schedules_by_last
                 where tenant = :tenant and failing = 1
                   and exists (select 1 from schedules indexed by schedules_failing where tenant = :tenant and failing = 1)
                 order by coalesce(last_at, -1) desc, id desc
                 limit :shown) as f
         cross join schedules as s
         where s.tenant = :tenant and s.id = f.id),
       (select json_group_array(json_array(id, state))
          from (select id, state
                  from schedules indexed by schedules_paused
                 where tenant = :tenant and status = 'paused'
                 order by id
                 limit :paused_max)),
       (select json_group_array(json_array(id, name, error, tried_at))
          from (select id, name, error, coalesce(started_at, created_at) as tried_at
                  from {soonest waiting :stuck_until :stuck_scan_max: id, name, kind, error, started_at, created_at} as soon
                 where kind = 'workflow' and error is not null and tenant = :tenant
                 order by id
                 limit :stuck_most)),
       (select json_array(count(*), (select id
                                           from schedules
                                          where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :late_at
                                          order by coalesce(next_at, 9223372036854775807), id
                                          limit 1), min(next_at))
          from (select next_at
                  from schedules
                 where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :late_at
                 order by coalesce(next_at, 9223372036854775807), id
                 limit :limit) as overdue),
       (select json_group_array(json_array(name, jobs, at, id, (select error from history where id = f.id)))
          from (select name, count(*) as jobs, max(completed_at) as at, id
                  from (select name, completed_at, id, retried_as,
                               case when schedule_id is null then 0
                                    else (select count(*)
                                            from schedules as s
                                           where s.tenant = :tenant and s.id = h.schedule_id and s.failing = 1) end
                               as of_failing
                          from history as h indexed by history_failed
                         where tenant = :tenant and state = 'failed' and completed_at >= :hour_ago
                         limit :limit) as failed
                 where retried_as is null
                 group by name
                having count(*) > sum(of_failing)
                 order by at desc, name
                 limit :shown) as f)
