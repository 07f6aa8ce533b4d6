"""The editor of schedules: reads a form, compares it with the stored schedule, and previews its times.

drafts      a schedule as JSON; the differences of two drafts; the body that saves one; changes by other editors
forms       form -> draft, with each error at its field; draft -> form; the rows for sources and exclusions; RRULEs
session     one request: the preview, the checks, and the line of `evertick schedule` that does the same
words       explanations of policies
"""
