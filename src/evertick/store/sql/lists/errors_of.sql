-- errors_of: the beginnings of the errors of the finished jobs with the ids in the JSON list :ids: type and message, with
-- JSON's escapes. In no order.
select id, substr({error}, 1, 200)
  from history
 where id in {list :ids} and (tenant || '') = :tenant and error is not null
