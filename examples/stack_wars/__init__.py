"""The same models trained by every stack, and what each made of its first steps. `python -m examples.stack_wars`"""
