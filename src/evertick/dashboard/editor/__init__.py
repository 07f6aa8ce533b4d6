"""The editor of schedules: what a form says, what it was before, and what would come of it.

drafts      what a schedule is to be, as JSON; what differs between two of them; what is sent to save it
rows        the rows of a form, one for each source of times and for each exclusion
rules       the builder of RRULEs
reading     form -> draft, with every complaint beside its field; draft -> form
preview     the times of a draft, beside those of another one
commands    the line of `evertick schedule` that does the same
conflicts   what another editor changed meanwhile
words       policies in words
"""
