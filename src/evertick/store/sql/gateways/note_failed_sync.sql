-- note_failed_sync: why a sync with a gateway has failed.
update gateways
   set error = :error
 where id = :id and syncs = :syncs
