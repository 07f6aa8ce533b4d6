-- prune_audit: remove at most :limit lines whose ids are below :before, which begin with the time.
delete from audit_log
 where id in (select id from audit_log where id < :before order by id limit :limit)
