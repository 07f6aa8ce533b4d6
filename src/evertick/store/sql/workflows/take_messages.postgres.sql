-- take_messages: mark the messages of the JSON list :messages as taken. Lists come as JSON, read by each database's own.
update workflow_inbox
   set taken_at = :now
 where id = any (array(select json_array_elements_text(:messages::json)::bigint))
