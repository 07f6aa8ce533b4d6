-- insert_messages: as SQLite's, for many messages in one round trip, in their order. :rows is a JSON array of objects.
insert into workflow_inbox (run_id, kind, name, seq, result, error, key, sender, sent_at)
select e.run_id, e.kind, e.name, e.seq, e.result, e.error, e.key, e.sender, e.sent_at
  from json_array_elements(:rows::json) with ordinality as given (value, place)
 cross join lateral json_to_record(given.value)
       as e (run_id text, kind text, name text, seq integer, result text, error text, key text,
             sender text, sent_at bigint)
 order by given.place
on conflict do nothing
