-- save_tenant_limits: what a tenant may use. What was used of its rate stays.
insert into tenant_limits (tenant, running, starts_per_minute, jobs, argument_bytes, schedules)
values (:tenant, :running, :starts_per_minute, :jobs, :argument_bytes, :schedules)
on conflict (tenant)
   do update set running = excluded.running, starts_per_minute = excluded.starts_per_minute, jobs = excluded.jobs,
                 argument_bytes = excluded.argument_bytes, schedules = excluded.schedules
