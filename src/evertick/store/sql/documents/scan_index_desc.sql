-- scan_index_desc: as scan_index_asc, downwards, with keys from :low on.
select e.key, e.document_id, d.body
  from index_entries e
  join documents d on d.tenant = e.tenant and d.id = e.document_id
 where e.tenant = :tenant and e.index_name = :index_name
   and (e.key, e.document_id) < (:key, :document_id) and e.key >= :low
 order by e.key desc, e.document_id desc
 limit :limit
