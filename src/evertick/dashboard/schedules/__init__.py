"""What the pages of schedules work out before they are drawn."""
