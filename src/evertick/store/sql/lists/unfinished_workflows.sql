-- unfinished_workflows: the functions of a tenant's unfinished jobs whose latest one is the run of a workflow.
{names}
   and 'workflow' = (select kind from jobs where tenant = :tenant and name = names.name order by {id} desc limit 1)
