-- release_held: make held jobs ready again, the first of a function, tenant and key, by rank, until as many are ready as
-- there is room for. Reads the index jobs_by_limit_key. SQLite runs it once a key; PostgreSQL's twin takes all keys in one
-- round trip.
update jobs
   set stage = 'ready'
 where id in (select id
                from jobs indexed by jobs_by_limit_key
               where state = 'pending' and stage = 'held' and queue = :queue and tenant = :tenant and limit_key = :key
               order by rank, id
               limit :room - (select count(*)
                             from (select 1
                                     from jobs indexed by jobs_by_limit_key
                                    where state = 'pending' and stage = 'ready' and queue = :queue and tenant = :tenant
                                      and limit_key = :key
                                    limit :room) as found))
