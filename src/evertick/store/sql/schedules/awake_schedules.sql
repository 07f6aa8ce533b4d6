-- awake_schedules: schedules of all tenants that want to be looked at some time, beyond the position given.
-- Reads the primary key. Those that are known as unreadable are left out: they are looked at by themselves.
select tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at, last_at,
       last_result, last_failure, version, revision, created_at, updated_at
  from schedules
 where (tenant, id) > (:after_tenant, :after_id)
   and wake_at is not null and status <> 'unreadable' and format <= :format
 order by tenant, id
 limit :limit
