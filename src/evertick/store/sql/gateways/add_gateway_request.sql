-- add_gateway_request: what a gateway that dials out is to fetch.
insert into gateway_requests (id, gateway_id, request, deadline)
values (:id, :gateway_id, :request, :deadline)
