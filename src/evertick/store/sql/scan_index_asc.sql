-- scan_index_asc: documents in the order of a declared index, upwards, from (:key, :document_id) exclusive, inside the
-- half-open range of keys [:low, :high), at most :limit.
select e.key, e.document_id, d.body
  from index_entries e
  join documents d on d.tenant = e.tenant and d.id = e.document_id
 where e.tenant = :tenant and e.index_name = :index_name
   and e.key >= :low and e.key < :high
   and (e.key, e.document_id) > (:key, :document_id)
 order by e.key asc, e.document_id asc
 limit :limit
