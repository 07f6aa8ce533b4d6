-- delete_gateway_crons: the copy of the crons of a gateway that is gone.
delete from gateway_crons
 where gateway_id = :id
