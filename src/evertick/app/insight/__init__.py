"""What dashboards show beside lists."""
