-- The runs with an attribute that a page of a list looks at.
(select run_id
   from workflow_attributes
  where tenant = :tenant and name = :attribute and value = :attribute_value
    and run_id {beyond} :beyond and run_id {within} :horizon)
