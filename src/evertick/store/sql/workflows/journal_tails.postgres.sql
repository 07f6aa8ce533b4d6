-- journal_tails: the newest :rows rows of the journals in :runs (a JSON array of objects with run_id and generation),
-- not in order, and without what steps returned.
-- PostgreSQL's own: it reads lists of objects by another function, and a limit for each of them by a lateral join.
select row.run_id, row.position, row.kind, row.seq, row.name, row.at, row.call, row.arguments, row.due_at, row.attempt,
       case row.kind when 'call' then row.result end, null, null
  from json_to_recordset(:runs::json) as run (run_id text, generation integer)
 cross join lateral (select *
                       from workflow_journal as journal
                      where journal.run_id = run.run_id and journal.generation = run.generation
                      order by position desc
                      limit :rows) as row
