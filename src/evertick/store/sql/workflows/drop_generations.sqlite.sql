-- drop_generations: remove at most :limit rows of the generations before those in :runs (a JSON array of objects with run_id
-- and generation).
delete from workflow_journal
 where (run_id, generation, position) in (
       select old.run_id, old.generation, old.position
         from json_each(:runs) as run
        cross join workflow_journal as old
                on old.run_id = run.value ->> 'run_id' and old.generation < run.value ->> 'generation'
        limit :limit)
