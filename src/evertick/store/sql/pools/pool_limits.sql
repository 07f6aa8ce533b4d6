-- pool_limits: the pools with limits, by name.
select pool, running, per_tenant, starts_per_minute, paused, per_key, note
  from pool_limits
 order by pool
