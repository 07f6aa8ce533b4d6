-- scan_documents_asc: documents of one table by creation time, upwards, strictly between two ids, at most :limit.
select id, body
  from documents
 where tenant = :tenant and id > :low and id < :high
 order by id asc
 limit :limit
