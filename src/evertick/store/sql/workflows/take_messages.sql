-- take_messages: mark the messages of the JSON list :messages as taken.
update workflow_inbox set taken_at = :now where id in {numbers :messages}
