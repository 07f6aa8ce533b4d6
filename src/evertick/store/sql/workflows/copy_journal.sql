-- copy_journal: the first :rows rows of a generation of a run, as those of another run, which begins with them.
insert into workflow_journal (run_id, generation, position, kind, seq, name, at, call, arguments, due_at, attempt,
                              result, error, sender)
select :to_run, 0, position, kind, seq, name, at, call, arguments, due_at, attempt, result, error, sender
  from workflow_journal
 where run_id = :run_id and generation = :generation and position < :rows
