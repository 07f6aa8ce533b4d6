-- release_held: make held jobs ready again: for each of the JSON objects :rows the first of a function, tenant and key, by
-- rank, until as many are ready as there is room for. Reads the index jobs_by_limit_key.
-- PostgreSQL's own: rows that another transaction is changing are skipped, not waited for. With `stage in ('ready', '')` it
-- cannot take the index jobs_ready, which holds all keys together.
update jobs
   set stage = 'ready'
 where id = any (array(
       select job.id
         from json_to_recordset(:rows::json) as r (queue bigint, tenant text, key text, room integer)
        cross join lateral (select count(*) as jobs
                              from (select 1
                                      from jobs
                                     where state = 'pending' and stage in ('ready', '') and queue = r.queue
                                       and tenant = r.tenant and limit_key = r.key
                                     limit r.room) as found) as ready
        cross join lateral (select id
                              from jobs
                             where state = 'pending' and stage = 'held' and queue = r.queue and tenant = r.tenant
                               and limit_key = r.key
                             order by rank, id
                             limit r.room - ready.jobs
                               for update skip locked) as job))
