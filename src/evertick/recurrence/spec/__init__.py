"""What an author wrote, as data: sources, exclusions, civil dates; and the small tools that every room uses."""
