"""The tests, as a package: modules in it import each other by their full names."""
