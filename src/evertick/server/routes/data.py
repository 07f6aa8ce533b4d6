"""Data: the tables of a tenant, and the documents in them. Nothing is changed here: mutations do that."""

from evertick.app.documents.browsing import DataOperations
from evertick.server.callers import tenant_routes
from evertick.server.operations import add_operations

routes = tenant_routes("data")
add_operations(routes, DataOperations, lambda caller, request: caller.access.data)
