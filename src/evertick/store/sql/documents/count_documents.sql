-- count_documents: of each table of a list, how many rows were found among :limit of the key from the table on, and how
-- many of them are its own, for a table whose name begins alike has longer ids; and the newest of its last ids.
-- Ids end at :until, the digits of a time behind `_`, before many that are not the table's. That end is asked outside:
-- PostgreSQL would otherwise expect few rows while it knows nothing of the table, and sort all of them.
select t.each,
       (select {json list}(count(*), count(case when length(id) = length(t.each) + 29 then 1 end))
          from (select id
                  from documents
                 where tenant = :tenant and id > t.each || '_'
                 order by id
                 limit :limit) as counted
         where id < t.each || :until),
       (select max(id)
          from (select id
                  from documents
                 where tenant = :tenant and id < t.each || :until
                 order by id desc
                 limit :newest) as last
         where id > t.each || '_' and length(id) = length(t.each) + 29)
  from {each :tables} as t
