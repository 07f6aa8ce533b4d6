-- prune_schedule_history: remove at most :limit lines of schedules' histories whose ids are below :before, which begin
-- with the time. Reads the primary key.
delete from schedule_history
 where id in (select id from schedule_history where id < :before order by id limit :limit)
