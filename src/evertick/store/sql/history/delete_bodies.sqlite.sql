-- delete_bodies: remove the large arguments of jobs. :ids is a JSON list. PostgreSQL does so within delete_history.
delete from bodies
 where id in (select value from json_each(:ids))
