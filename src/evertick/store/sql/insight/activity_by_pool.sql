-- activity_by_pool: what a tenant's jobs in each pool did in each ten minutes since a moment, without how late they were.
-- Reads the primary key.
select pool, at, sum(ended), sum(failed), sum(canceled), sum(retried)
  from pool_activity
 where tenant = :tenant and at >= :since
 group by pool, at
 order by pool, at
