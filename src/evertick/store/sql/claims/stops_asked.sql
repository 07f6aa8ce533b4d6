-- stops_asked: which of these jobs were asked to stop. :ids is a JSON list. One that was terminated has ended.
select id, stop
  from jobs
 where id in {list :ids} and stop > 0
union all
select id, stop
  from history
 where id in {list :ids} and stop > 0
