-- load_journals: the rows of the journals in :runs (a JSON array of objects with run_id and generation), not in order.
select row.run_id, row.position, row.kind, row.seq, row.name, row.at, row.call, row.arguments, row.due_at, row.attempt,
       row.result, row.error, row.sender
  from json_each(:runs) as run
 cross join workflow_journal as row
         on row.run_id = run.value ->> 'run_id' and row.generation = run.value ->> 'generation'
