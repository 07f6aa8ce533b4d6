-- drop_document_index: forget that an index is built.
delete from document_indexes
 where tenant = :tenant and index_name = :index_name
