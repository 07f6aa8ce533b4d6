-- forget_removed_crons: crons that were removed long ago.
delete from gateway_crons
 where gateway_id = :gateway_id and removed_at < :before
