-- remove_worker: the worker is gone, and holds nothing any more.
delete from workers
 where id = :id
