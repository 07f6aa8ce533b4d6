"""Command line: how people at a terminal, and scripts, reach Evertick.

`main` is the program. Every command is a module of its own that is imported only when it is asked for.
"""
