-- edge_by_attribute: as edge_finished, of the runs with an attribute.
select run_id
  from workflow_attributes
 where tenant = :tenant and name = :attribute and value = :attribute_value and run_id {beyond} :beyond
 order by run_id {order}
 limit 1
offset :skip
