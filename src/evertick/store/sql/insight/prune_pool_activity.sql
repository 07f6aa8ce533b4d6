-- prune_pool_activity: remove at most :limit rows of spans of pools before :before. Reads the index pool_activity_at.
delete from pool_activity
 where (tenant, pool, at, source) in (select tenant, pool, at, source
                                        from pool_activity
                                       where at < :before
                                       order by at
                                       limit :limit)
