-- renew_lease: the worker lives. Changes nothing once its lease was taken away: then it must stop.
update workers
   set leased_until = :leased_until
 where id = :id
