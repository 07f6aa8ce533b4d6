-- waiting_messages: what was sent to the runs of the JSON list :runs and not taken. Reads workflow_inbox_waiting.
-- PostgreSQL's own: it reads lists by another function.
select id, run_id, kind, name, seq, result, error, sender
  from workflow_inbox
 where run_id = any (array(select json_array_elements_text(:runs::json))) and taken_at is null
