-- gateways_to_fetch: which gateways have something to fetch.
select distinct gateway_id
  from gateway_requests
 where taken_at is null and deadline > :now
