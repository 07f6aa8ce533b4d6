"""No models. Django sends post_migrate to an application only if it has this module."""
