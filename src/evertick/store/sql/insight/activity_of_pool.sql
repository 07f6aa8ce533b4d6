-- activity_of_pool: what a tenant's jobs in one pool did in each ten minutes since a moment, by worker. Reads the primary
-- key.
select at, ended, failed, canceled, retried, late, null
  from pool_activity
 where tenant = :tenant and pool = :pool and at >= :since
 order by at
