-- use_token: note when a token was used last.
update access_tokens
   set last_used_at = :now
 where id = :id
