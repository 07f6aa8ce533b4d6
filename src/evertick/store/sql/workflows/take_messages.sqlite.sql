-- take_messages: mark the messages of the JSON list :messages as taken. Lists come as JSON, read by each database's own.
update workflow_inbox set taken_at = :now where id in (select value from json_each(:messages))
