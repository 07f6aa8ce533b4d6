-- journal_tails: the newest :rows rows of the journals in :runs (a JSON array of objects with run_id and generation),
-- not in order, and without what steps returned.
select row.run_id, row.position, row.kind, row.seq, row.name, row.at, row.call, row.arguments, row.due_at, row.attempt,
       case row.kind when 'call' then row.result end, null, null
  from json_each(:runs) as run
 cross join workflow_journal as row
         on row.run_id = run.value ->> 'run_id' and row.generation = run.value ->> 'generation'
            and row.position > (select max(newest.position)
                                  from workflow_journal as newest
                                 where newest.run_id = run.value ->> 'run_id'
                                   and newest.generation = run.value ->> 'generation') - :rows
