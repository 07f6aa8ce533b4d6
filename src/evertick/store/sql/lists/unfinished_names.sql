-- unfinished_names: the functions of a tenant's unfinished jobs.
{names}
