-- save_schedules: write schedules back, each if no other transaction has since it was read, in one round trip.
-- What is not known of their health stays as it was.
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
