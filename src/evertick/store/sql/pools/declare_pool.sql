-- declare_pool: keep what code has declared for a pool.
update pool_limits
   set declared = :declared
 where pool = :pool
