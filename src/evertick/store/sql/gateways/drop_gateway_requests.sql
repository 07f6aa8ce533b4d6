-- drop_gateway_requests: those whose senders died.
delete from gateway_requests
 where deadline < :before
