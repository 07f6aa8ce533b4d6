-- part: chosen
-- The filters of a list of schedules. A null filter does not filter. The indexes of lists have all filtered columns.
(cast(:kind as text) is null or kind = :kind)
           and (cast(:status as text) is null or status = :status)
           and (cast(:function as text) is null or function = :function)
           and (cast(:time_zone as text) is null or time_zone = :time_zone)
           and (cast(:failing as integer) is null or failing = :failing)
           and (cast(:late_at as bigint) is null or late = 1 or next_at < :late_at)
           and (cast(:missed_since as bigint) is null or missed_at >= :missed_since)
           and (cast(:id_contains as text) is null or {has exactly id :id_contains})
           and (cast(:next_before as bigint) is null or next_at < :next_before)

-- name: add_schedule_history
-- A line of a schedule's history.
insert into schedule_history (id, tenant, schedule_id, at, actor, action, detail, version)
values (:id, :tenant, :schedule_id, :at, :actor, :action, :detail, :version)

-- name: awake_schedules
-- Schedules of all tenants that have a wake-up, after the given position. Reads the primary key. Schedules that are
-- marked as unreadable are omitted: they are evaluated separately.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from schedules
 where (tenant, id) > (:after_tenant, :after_id)
   and wake_at is not null and status <> 'unreadable' and format <= :format
 order by tenant, id
 limit :limit

-- name: count_unreadable
-- How many schedules of all tenants cannot be read, counted to :limit. The index has all the columns.
select count(*)
  from (select 1 from schedules {indexed by schedules_in_order} where status = 'unreadable' limit :limit) as unreadable

-- name: delete_schedule
-- Remove a schedule; its runs and its ledger stay.
delete from schedules
 where tenant = :tenant and id = :id

-- name: due_schedules
-- Schedules whose wake-up has come, longest waiting first. Reads the index schedules_wake. Rows that another evaluator
-- has locked are skipped: no leader, any process may evaluate.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from schedules
 where wake_at <= :now and format <= :format
 order by wake_at, tenant, id
 limit :limit
{for update skip locked}

-- name: get_schedule
-- One schedule, whole.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from schedules
 where tenant = :tenant and id = :id

-- name: insert_schedule
-- A new schedule. An id exists once in a tenant.
insert into schedules (tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at,
                       last_at, last_result, last_failure, version, revision, created_at, updated_at,
                       time_zone, failing, late, missed_at)
values (:tenant, :id, :kind, :spec, :target, :function, :state, :status, :note, :memo, :seen_until, :wake_at, :next_at,
        :last_at, :last_result, :last_failure, :version, :revision, :created_at, :updated_at,
        :time_zone, :failing, coalesce(:late, 0), :missed_at)

-- name: last_version
-- The highest version that schedules of this id had, as far as their history is kept. A new id has none.
select coalesce(max(version), 0)
  from schedule_history
 where tenant = :tenant and schedule_id = :schedule_id

-- name: list_chosen_schedules
-- As list_schedules_by_id, those that match a filter. The index schedules_in_order has all the columns, so only the
-- rows of the page are read.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from (select tenant as of_tenant, id as of_id
          from schedules {indexed by schedules_in_order}
         where tenant = :tenant and {id} {beyond} :after_id
           and {chosen}
         order by {id} {order}
         limit :limit) as page
 cross join schedules
 where tenant = page.of_tenant and id = page.of_id
 order by id {order}

-- name: list_schedule_history
-- The history of a schedule, newest first, before :before.
select id, tenant, schedule_id, at, actor, action, detail, version
  from schedule_history
 where tenant = :tenant and schedule_id = :schedule_id and id < :before
 order by id desc
 limit :limit

-- name: list_schedules_at_time
-- As list_schedules_by_time, those of one time, by id after the given one.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from (select tenant as of_tenant, id as of_id
          from schedules
         where tenant = :tenant and {time} = :after_time and id {beyond} :after_id
           and {chosen}
         order by id {order}
         limit :limit) as page
 cross join schedules
 where tenant = page.of_tenant and id = page.of_id
 order by id {order}

-- name: list_schedules_by_id
-- A tenant's schedules by id, after the given position.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from schedules
 where tenant = :tenant and id {beyond} :after_id
 order by id {order}
 limit :limit

-- name: list_schedules_by_time
-- A tenant's schedules by their next or last time, after a time. The index has all the columns, so only the rows of the
-- page are read.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from (select tenant as of_tenant, id as of_id
          from schedules
         where tenant = :tenant and {time} {beyond} :after_time
           and {chosen}
         order by {time} {order}, id {order}
         limit :limit) as page
 cross join schedules
 where tenant = page.of_tenant and id = page.of_id
 order by {time} {order}, id {order}

-- name: schedules_of_tenants
-- The schedules that have not ended of all tenants up to :last_tenant, by tenant and id, after the given position.
-- Reads the primary key.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from schedules
 where (tenant, id) > (:after_tenant, :after_id) and tenant <= :last_tenant and status <> 'completed'
 order by tenant, id
 limit :limit

-- name: lock_schedule
-- Lock one schedule: waits for an evaluator that has it locked.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from schedules
 where tenant = :tenant and id = :id
{for update}

-- name: missed_since
-- The schedules that missed a time since an instant. Reads the primary key, not the index of all that missed something.
select id
  from schedules
 where tenant = :tenant and id in {list :ids} and coalesce(missed_at, 0) >= :since

-- name: next_wake
-- When the next schedule wakes up. Reads the index schedules_wake.
select wake_at
  from schedules
 where wake_at is not null and format <= :format
 order by wake_at
 limit 1

-- name: prune_schedule_history
-- Remove at most :limit lines of schedules' histories whose ids are below :before, which begin
-- with the time. Reads the primary key.
delete from schedule_history
 where id in (select id from schedule_history where id < :before order by id limit :limit)

-- name: reported_schedules (postgres)
-- Schedules with unprocessed ends of runs. Reads the index run_reports_by_schedule.
-- As SQLite's, but those that another evaluator has locked are skipped.
select s.tenant, s.id, s.kind, s.spec, s.target, s.function, s.state, s.status, s.note, s.memo, s.seen_until, s.wake_at,
       s.next_at, s.last_at, s.last_result, s.last_failure, s.version, s.revision, s.created_at, s.updated_at
  from (select distinct tenant, schedule_id from run_reports order by tenant, schedule_id) r
  join schedules s on s.tenant = r.tenant and s.id = r.schedule_id and s.status <> 'unreadable'
   and s.format <= :format
 limit :limit
   for update of s skip locked

-- name: reported_schedules (sqlite)
-- Schedules with unprocessed ends of runs. Reads the index run_reports_by_schedule.
-- Reports of an unreadable schedule wait: they must not cause an evaluation at once.
select s.tenant, s.id, s.kind, s.spec, s.target, s.function, s.state, s.status, s.note, s.memo, s.seen_until, s.wake_at,
       s.next_at, s.last_at, s.last_result, s.last_failure, s.version, s.revision, s.created_at, s.updated_at
  from (select distinct tenant, schedule_id from run_reports) r
 cross join schedules s on s.tenant = r.tenant and s.id = r.schedule_id and s.status <> 'unreadable'
   and s.format <= :format
 limit :limit

-- name: save_schedules (postgres)
-- Write schedules back, each if no other transaction has written it since it was read, in one round trip. Unknown parts
-- of their health stay as they were.
update schedules
   set spec = s.spec, target = s.target, function = s.function, state = s.state, status = s.status, note = s.note,
       memo = s.memo, seen_until = s.seen_until, wake_at = s.wake_at, next_at = s.next_at, last_at = s.last_at,
       last_result = s.last_result, last_failure = s.last_failure, version = s.version, updated_at = s.updated_at,
       time_zone = coalesce(s.time_zone, schedules.time_zone), failing = s.failing,
       late = coalesce(s.late, schedules.late), missed_at = coalesce(s.missed_at, schedules.missed_at),
       revision = schedules.revision + 1
  from json_to_recordset(:rows::json)
       as s (spec text, target text, function text, state text, status text, note text, memo text, seen_until bigint,
             wake_at bigint, next_at bigint, last_at bigint, last_result text, last_failure text, version bigint,
             updated_at bigint, time_zone text, failing smallint, late smallint, missed_at bigint, tenant text, id text,
             revision bigint)
 where schedules.tenant = s.tenant and schedules.id = s.id and schedules.revision = s.revision

-- name: save_schedules (sqlite)
-- Write a schedule back, if no other transaction has written it since it was read. SQLite runs it once a row. Unknown
-- parts of its health stay as they were.
update schedules
   set spec = ?, target = ?, function = ?, state = ?, status = ?, note = ?, memo = ?, seen_until = ?, wake_at = ?,
       next_at = ?, last_at = ?, last_result = ?, last_failure = ?, version = ?, updated_at = ?,
       time_zone = coalesce(?, time_zone), failing = ?, late = coalesce(?, late), missed_at = coalesce(?, missed_at),
       revision = revision + 1
 where tenant = ? and id = ? and revision = ?

-- name: schedule_counts
-- How many schedules match, and how many are in a bad state, paused, or due soon; each to :limit at most. The matching
-- ones are counted in the order of a list, whose index has all filters: without an order PostgreSQL would read the
-- whole table.
select (select count(*) from (select 1 from schedules {indexed by schedules_in_order}
                               where tenant = :tenant and {id} > ''
                                 and {chosen}
                               order by {id}
                               limit :limit) as chosen),
       (select count(*) from (select 1 from schedules {indexed by schedules_failing}
                               where tenant = :tenant and failing = 1 limit :limit) as failing),
       (select count(*) from (select 1 from schedules {indexed by schedules_late}
                               where tenant = :tenant and late = 1 limit :limit) as late),
       (select count(*) from (select 1 from schedules
                               where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :overdue_before
                                 and late <> 1
                               order by coalesce(next_at, 9223372036854775807), id
                               limit :limit) as overdue),
       (select count(*) from (select 1 from schedules
                               where tenant = :tenant and missed_at >= :day_ago limit :limit) as missed),
       (select count(*) from (select 1 from schedules {indexed by schedules_paused}
                               where tenant = :tenant and status = 'paused' limit :limit) as paused),
       (select count(*) from (select 1 from schedules
                               where tenant = :tenant and coalesce(next_at, 9223372036854775807) < :soon
                               limit :limit) as soon)

-- name: wake_schedules
-- Let the schedules of some functions be evaluated at :now, also paused ones and those without a next time.
-- Reads all schedules: a workflow is deleted rarely.
update schedules
   set wake_at = :now
 where function in {list :functions} and (wake_at is null or wake_at > :now)
