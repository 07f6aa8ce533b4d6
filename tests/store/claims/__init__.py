"""Claims: which worker gets which job, fences, and tenants' turns."""
