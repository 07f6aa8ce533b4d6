-- coming_specs: how many schedules have which spec, of those that are due first.
{coming}
