-- pool_limits: the pools with limits, by name, and what code has declared for each.
select pool, running, per_tenant, starts_per_minute, paused, per_key, note, declared
  from pool_limits
 order by pool
