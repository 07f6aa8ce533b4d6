-- reply_to_request: a gateway has done what it fetched, in time.
update gateway_requests
   set status = :status, reply = :reply
 where id = :id and gateway_id = :gateway_id and taken_at is not null and status is null and deadline > :now
