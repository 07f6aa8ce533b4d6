-- get_gateway_request: whether a request was taken, and its reply.
select taken_at, status, reply
  from gateway_requests
 where id = :id
