"""What happens inside an episode: the loop, the pages, the database, the evidence."""
