-- coming: how many schedules have which spec, of those that are due first; and how many jobs are due in which span.
{coming}
