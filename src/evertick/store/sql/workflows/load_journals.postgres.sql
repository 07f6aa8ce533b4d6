-- load_journals: the rows of the journals in :runs (a JSON array of objects with run_id and generation), not in order.
-- PostgreSQL's own: it reads lists of objects by another function.
select row.run_id, row.position, row.kind, row.seq, row.name, row.at, row.call, row.arguments, row.due_at, row.attempt,
       row.result, row.error, row.sender
  from json_to_recordset(:runs::json) as run (run_id text, generation integer)
  join workflow_journal as row on row.run_id = run.run_id and row.generation = run.generation
