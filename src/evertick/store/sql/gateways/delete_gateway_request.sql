-- delete_gateway_request: nobody waits for its reply any more.
delete from gateway_requests
 where id = :id
returning taken_at, status, reply
