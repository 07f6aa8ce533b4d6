-- delete_logs: remove at most :limit lines that jobs logged. :ids is a JSON list. PostgreSQL's own, because it finds a
-- row again by its place.
delete from logs
 where ctid = any (array(select ctid
                           from logs
                          where job_id = any (array(select json_array_elements_text(:ids::json)))
                          limit :limit))
