-- note_failed_look: why a look at a gateway has failed.
update gateways
   set error = :error
 where id = :id and looks = :looks
