-- name: clear_index
-- Remove up to :limit entries of an index that is rebuilt or dropped.
delete from index_entries
 where tenant = :tenant and index_name = :index_name
   and (key, document_id) in (select key, document_id
                                from index_entries
                               where tenant = :tenant and index_name = :index_name
                               limit :limit)

-- name: clear_index_entries
-- Remove every entry of an index that is rebuilt or dropped.
delete from index_entries
 where tenant = :tenant and index_name = :index_name

-- name: count_documents
-- For each table of a list, how many rows were found among :limit of the key from the table on, and how many of them
-- are its own, because a table whose name begins alike has longer ids; and the newest of its last ids. Ids end at
-- :until, the digits of a time after `_`, before many that are not the table's. That end is compared outside: otherwise
-- PostgreSQL would expect few rows while it has no statistics, and sort all of them.
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

-- name: delete_documents (postgres)
-- Remove documents in one round trip.
delete from documents d
 using json_to_recordset(:rows::json) as gone (tenant text, id text)
 where d.tenant = gone.tenant and d.id = gone.id

-- name: delete_documents (sqlite)
-- Remove one document. SQLite runs it once a row.
delete from documents
 where tenant = ? and id = ?

-- name: delete_index_entries (postgres)
-- Remove entries of declared indexes in one round trip. Keys are transferred as hexadecimal digits.
delete from index_entries e
 using json_to_recordset(:rows::json) as gone (tenant text, index_name text, key text, document_id text)
 where e.tenant = gone.tenant and e.index_name = gone.index_name and e.key = decode(gone.key, 'hex')
   and e.document_id = gone.document_id

-- name: delete_index_entries (sqlite)
-- Remove one entry of a declared index. SQLite runs it once a row.
delete from index_entries
 where tenant = ? and index_name = ? and key = ? and document_id = ?

-- name: document_tables
-- An id of each table in which a tenant has documents, by steps of the primary key, at most :steps.
-- A step skips all ids that begin with the same three digits of the time as the found one, which are two years, and
-- then those that do with a digit or with a letter: ids of a table `log_01` or `log_b` may be among those of `log`.
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

-- name: drop_document_index
-- Store that an index is not built any more.
delete from document_indexes
 where tenant = :tenant and index_name = :index_name

-- name: get_document
-- One document's JSON.
select body
  from documents
 where tenant = :tenant and id = :id

-- name: list_document_indexes
-- Which indexes of a tenant are built, and over which fields (a JSON list).
select index_name, fields
  from document_indexes
 where tenant = :tenant

-- name: put_documents
-- Write documents, new or changed.
insert into documents {rows: tenant text, id text, body text}
on conflict (tenant, id) do update set body = excluded.body

-- name: put_index_entries
-- Write entries of declared indexes.
insert into index_entries {rows: tenant text, index_name text, key bytea, document_id text}
on conflict do nothing

-- name: save_document_index
-- Store that an index is built.
insert into document_indexes (tenant, index_name, fields)
values (:tenant, :index_name, :fields)
on conflict (tenant, index_name) do update set fields = excluded.fields

-- name: scan_documents_asc
-- Documents of one table by creation time, upwards, strictly between two ids, at most :limit.
select id, body
  from documents
 where tenant = :tenant and id > :low and id < :high
 order by id asc
 limit :limit

-- name: scan_documents_desc
-- Documents of one table by creation time, downwards, strictly between two ids, at most :limit.
select id, body
  from documents
 where tenant = :tenant and id > :low and id < :high
 order by id desc
 limit :limit

-- name: scan_index_asc
-- Documents in the order of a declared index, upwards, from (:key, :document_id) exclusive, with keys below :high, at
-- most :limit. The position is the only lower bound: with a second one, databases start at the wrong one and scan
-- everything that was read before.
select e.key, e.document_id, d.body
  from index_entries e
  join documents d on d.tenant = e.tenant and d.id = e.document_id
 where e.tenant = :tenant and e.index_name = :index_name
   and (e.key, e.document_id) > (:key, :document_id) and e.key < :high
 order by e.key asc, e.document_id asc
 limit :limit

-- name: scan_index_desc
-- As scan_index_asc, downwards, with keys from :low on.
select e.key, e.document_id, d.body
  from index_entries e
  join documents d on d.tenant = e.tenant and d.id = e.document_id
 where e.tenant = :tenant and e.index_name = :index_name
   and (e.key, e.document_id) < (:key, :document_id) and e.key >= :low
 order by e.key desc, e.document_id desc
 limit :limit
