"""`evertick mcp`: the operations of the HTTP API as tools of AI agents, by the Model Context Protocol."""
