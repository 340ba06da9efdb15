"""Public threads in which a maintainer found why something compiled, each rebuilt as a small program.

`queries_*.md` are the searches and what they gave; a program's header has the thread's answer, written down before
coldstep was run. `make threads` judges by machine: the cause that the report names first, and its advice to the letter.
"""
