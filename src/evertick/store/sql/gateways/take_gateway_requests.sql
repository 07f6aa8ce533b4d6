-- take_gateway_requests: a gateway fetches what it is to do.
update gateway_requests
   set taken_at = :now
 where gateway_id = :gateway_id and taken_at is null and deadline > :now
returning id, request
