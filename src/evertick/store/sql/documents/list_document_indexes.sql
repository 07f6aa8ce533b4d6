-- list_document_indexes: which indexes of a tenant are built, and over which fields (a JSON list).
select index_name, fields
  from document_indexes
 where tenant = :tenant
