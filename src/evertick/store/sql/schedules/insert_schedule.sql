-- insert_schedule: a new schedule. An id exists once in a tenant.
insert into schedules (tenant, id, kind, spec, target, function, state, status, note, memo, seen_until, wake_at, next_at,
                       last_at, last_result, last_failure, version, revision, created_at, updated_at,
                       time_zone, failing, late, missed_at)
values (:tenant, :id, :kind, :spec, :target, :function, :state, :status, :note, :memo, :seen_until, :wake_at, :next_at,
        :last_at, :last_result, :last_failure, :version, :revision, :created_at, :updated_at,
        :time_zone, :failing, coalesce(:late, 0), :missed_at)
