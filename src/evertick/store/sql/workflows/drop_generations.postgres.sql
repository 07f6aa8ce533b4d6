-- drop_generations: as SQLite's. PostgreSQL's own: it reads lists of objects by another function, and finds a row again by
-- its place.
delete from workflow_journal
 where ctid = any (array(select old.ctid
                           from json_to_recordset(:runs::json) as run (run_id text, generation integer)
                           join workflow_journal as old
                             on old.run_id = run.run_id and old.generation < run.generation
                          limit :limit))
