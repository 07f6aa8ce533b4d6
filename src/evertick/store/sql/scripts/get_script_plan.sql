-- get_script_plan: the limits of a tenant that differ from those of the app.
select limits
  from script_plans
 where tenant = :tenant
