-- delete_history: remove finished jobs. :ids is a JSON list. What belongs to them is removed by statements of its own.
delete from history
 where id in (select value from json_each(:ids))
returning tenant, name, state, retried_as
