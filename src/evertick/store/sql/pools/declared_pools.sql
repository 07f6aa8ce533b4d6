-- declared_pools: what code has declared for pools.
select pool, declared
  from pool_limits
 where declared is not null
