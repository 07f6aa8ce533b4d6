-- document_tables: an id of each table in which a tenant has documents, by steps of the primary key, at most :steps.
-- A step leaps over what begins with the same three digits of the time as the id that was found, which are two years,
-- and then as it does with a digit or with a letter: ids of a table `log_01` or `log_b` may lie among those of `log`.
with recursive walk (id, step) as (
  select * from (select id, 1 from documents where tenant = :tenant order by id limit 1) as first
  union all
  select (select id
            from documents
           where tenant = :tenant
             and id > substr(walk.id, 1, length(walk.id) - 25)
                   || case when substr(walk.id, length(walk.id) - 24, 1) < 'a' then ':' else 'g' end
           order by id
           limit 1), step + 1
    from walk
   where walk.id is not null and step < :steps)
select id, step from walk where id is not null
