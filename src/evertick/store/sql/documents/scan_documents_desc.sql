-- scan_documents_desc: documents of one table by creation time, downwards, strictly between two ids, at most :limit.
select id, body
  from documents
 where tenant = :tenant and id > :low and id < :high
 order by id desc
 limit :limit
