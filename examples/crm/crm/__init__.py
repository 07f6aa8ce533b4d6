"""A small CRM whose customers automate it themselves: they write scripts, and say when these run."""
