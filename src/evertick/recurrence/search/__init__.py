"""From a spec to something that is asked for times: days, times of day, steps, zones, exclusions."""
