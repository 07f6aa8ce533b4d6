"""The pages of schedules: the list, one schedule, and what is done to them."""
