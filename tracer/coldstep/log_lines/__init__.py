"""What carries the lines of a log to the readers, taken off: the encoding, colours, a terminal's width, JSON, what a
launcher puts before a line and after it, and a second handler's copy.

`blocks` gives the bytes of whole lines; `marks` finds those that may be for a reader; `containers` takes lines out of
JSON and the like; `prefix` takes off a stamp, a logger's name or a launcher's words, and keeps what they tell; `twice`
drops what a second handler wrote again. What reaches a reader is `coldstep.logs.Line`.
"""
