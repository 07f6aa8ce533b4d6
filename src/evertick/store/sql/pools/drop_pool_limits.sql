-- drop_pool_limits: nothing holds the jobs of a pool back, and no code has declared it.
delete from pool_limits
 where pool = :pool and declared is null
