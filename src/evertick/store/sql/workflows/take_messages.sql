-- take_messages: mark the messages of the JSON list :messages as taken. Nobody asks for their values any more.
update workflow_inbox set taken_at = :now, result = null where id in {numbers :messages}
