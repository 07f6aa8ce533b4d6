-- insert_messages: send a message, unless the run was sent one with its key. SQLite runs it once a row.
insert into workflow_inbox (run_id, kind, name, seq, result, error, key, sender, sent_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict do nothing
