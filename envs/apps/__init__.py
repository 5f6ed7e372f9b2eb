"""Applications that several worlds share: notices, mail, change history."""
