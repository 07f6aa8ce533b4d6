-- withdraw_event: remove an event that was sent to a run and not taken; returns what it brought. What takes it meanwhile, or
-- has taken it, has it: one of the two finds no row, or meets a conflict. It was sent at :sent_at, because SQLite gives the
-- id of a removed row to another one.
delete from workflow_inbox
 where id = :id and run_id = :run_id and sent_at = :sent_at and kind = 'event' and taken_at is null
returning result
