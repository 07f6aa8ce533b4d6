"""Statistics, problems and summaries for dashboards and reports."""
