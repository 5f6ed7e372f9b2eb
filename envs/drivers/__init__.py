"""The drivers: how an action becomes a request and a page becomes an observation."""
