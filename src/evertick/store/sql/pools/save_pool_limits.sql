-- save_pool_limits: what holds the jobs of a pool back. What was used of its rate stays.
insert into pool_limits (pool, running, per_tenant, starts_per_minute, paused, per_key, note)
values (:pool, :running, :per_tenant, :starts_per_minute, :paused, :per_key, :note)
on conflict (pool)
   do update set running = excluded.running, per_tenant = excluded.per_tenant,
                 starts_per_minute = excluded.starts_per_minute, paused = excluded.paused, per_key = excluded.per_key,
                 note = excluded.note
