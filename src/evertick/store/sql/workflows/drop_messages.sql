-- drop_messages: remove those messages of the JSON list :messages that have no key by which they would have to be known.
delete from workflow_inbox where id in {numbers :messages} and key is null
