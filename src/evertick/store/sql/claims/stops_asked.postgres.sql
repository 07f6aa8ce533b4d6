-- stops_asked: which of these jobs were asked to stop. :ids is a JSON list; PostgreSQL names its reader otherwise.
select id, stop
  from jobs
 where id = any (array(select json_array_elements_text(:ids::json))) and stop > 0
union all
select id, stop
  from history
 where id = any (array(select json_array_elements_text(:ids::json))) and stop > 0
