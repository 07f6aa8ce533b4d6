-- get_document: one document's JSON.
select body
  from documents
 where tenant = :tenant and id = :id
