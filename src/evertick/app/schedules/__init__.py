"""Schedules as an application uses them: `app.schedules`, `ctx.schedules`, and what each operation means."""
