-- reported_schedules: schedules whose runs ended and were not yet heard of. Reads the index run_reports_by_schedule.
-- As SQLite's, but those that another evaluator is looking at are skipped.
select s.tenant, s.id, s.kind, s.spec, s.target, s.function, s.state, s.status, s.note, s.memo, s.seen_until, s.wake_at,
       s.next_at, s.last_at, s.last_result, s.last_failure, s.version, s.revision, s.created_at, s.updated_at
  from (select distinct tenant, schedule_id from run_reports order by tenant, schedule_id) r
  join schedules s on s.tenant = r.tenant and s.id = r.schedule_id and s.status <> 'unreadable'
   and s.format <= :format
 limit :limit
   for update of s skip locked
