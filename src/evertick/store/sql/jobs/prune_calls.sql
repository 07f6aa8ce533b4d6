-- prune_calls: forget at most :limit remembered calls made before :before.
delete from calls
 where (tenant, key) in (select tenant, key
                           from calls
                          where created_at < :before
                          order by created_at
                          limit :limit)
