"""The running server: connections, the router, a handler per request, and the wiring of all the rest."""
