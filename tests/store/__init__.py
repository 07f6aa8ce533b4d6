"""What every store keeps: one contract suite, a model beside it, and what only one database can get wrong."""
