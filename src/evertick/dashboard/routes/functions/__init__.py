"""The pages of functions: the jobs that call them, what each of them does, and calls made by hand."""
