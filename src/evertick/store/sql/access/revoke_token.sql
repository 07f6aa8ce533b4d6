-- revoke_token: end a token that has not been revoked.
update access_tokens
   set revoked_at = :now
 where id = :id and revoked_at is null
