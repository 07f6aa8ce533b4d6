"""No models. Django tells an application that a migration is over only if it has this module."""
