-- prune_activity: remove at most :limit rows of spans before :before. Reads the index activity_at.
delete from activity
 where (tenant, name, at, source) in (select tenant, name, at, source
                                        from activity
                                       where at < :before
                                       order by at
                                       limit :limit)
