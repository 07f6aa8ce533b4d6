"""Words for times: each file here knows one kind of phrase, both ways.

`say_...` writes the phrase and `read_...` reads it back, together with its synonyms, so that the two cannot
drift apart. `describe` and `sentence`, one floor up, put the phrases together.
"""
