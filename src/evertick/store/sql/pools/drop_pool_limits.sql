-- drop_pool_limits: nothing holds the jobs of a pool back.
delete from pool_limits
 where pool = :pool
