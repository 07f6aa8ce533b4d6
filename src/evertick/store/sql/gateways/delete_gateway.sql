-- delete_gateway: a gateway is gone.
delete from gateways
 where id = :id
