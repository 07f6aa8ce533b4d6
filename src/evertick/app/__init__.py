"""App: how one writes it: decorators, contexts, documents, the scheduler, and calling from outside."""
