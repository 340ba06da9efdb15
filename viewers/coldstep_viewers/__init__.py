"""One module per place where people look at a trace: functions of the loaded trace.

Some work in the traced process, where they begin a trace or watch one: `commands.run`, `marking`, `live`, `notebook`
and `pytest_plugin`.
"""
