-- pulse: what a tenant's last change of a schedule, its next occurrence and its last line of a log are.
select (select max(id) from schedule_history where tenant = :tenant),
       (select next_at from schedules where tenant = :tenant
         order by coalesce(next_at, 9223372036854775807), id limit 1),
       (select max(stored_at) from logs where tenant = :tenant)
