-- scan_index_asc: documents in the order of a declared index, upwards, from (:key, :document_id) exclusive, with keys
-- below :high, at most :limit. The position is the only lower bound: beside a second one, databases start at the wrong
-- one and walk over everything that was read before.
select e.key, e.document_id, d.body
  from index_entries e
  join documents d on d.tenant = e.tenant and d.id = e.document_id
 where e.tenant = :tenant and e.index_name = :index_name
   and (e.key, e.document_id) > (:key, :document_id) and e.key < :high
 order by e.key asc, e.document_id asc
 limit :limit
