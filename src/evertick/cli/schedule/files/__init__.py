"""Files of schedules: `schedule export` writes them, `schedule apply` makes a database or a server like them."""
