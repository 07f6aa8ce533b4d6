-- waiting_messages: what was sent to the runs of the JSON list :runs and not taken. Reads workflow_inbox_waiting.
select message.id, message.run_id, message.kind, message.name, message.seq, message.result, message.error, message.sender
  from json_each(:runs) as run
 cross join workflow_inbox as message indexed by workflow_inbox_waiting on message.run_id = run.value
 where message.taken_at is null
