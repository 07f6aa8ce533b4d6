"""Rolling upgrades: several releases on one database, under load."""
