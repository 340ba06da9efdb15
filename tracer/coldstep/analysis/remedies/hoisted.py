"""Moves what a function makes anew in each call in front of the function, a class or an object: where it reads nothing
of the function's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import dropwhile
from symtable import symtable

from coldstep.analysis.remedies.blocks import Block, Written, assigned, read


def class_above(block: Block, line: int) -> Written | None:
    """The function of the block with the class that is defined at that line in front of it, by a name of its own; in a
    class as an attribute of that, which the method reads from `self`. None where it may not move, or nothing would be
    left."""
    function = block.tree
    made = next((each for each in getattr(function, "body", []) if _is_class(each, line)), None)
    if not isinstance(function, ast.FunctionDef) or made is None or not _is_independent(block, function, made):
        return None
    uses = [each for each in _names(function, made) if each.id == made.name]
    first, last = block.first, made.end_lineno or made.lineno
    lines = [block.lines[number - first] for number in range(first, last + 1)]
    begin = made.lineno - first
    inner = made.col_offset
    moved = [line[inner:] for line in lines[begin:]]
    if any(line[:inner].strip() for line in lines[begin:]) or len(function.body) == 1:
        return None
    is_method, head = bool(block.indent), f"class {made.name}"
    owner = function.args.args[0].arg if function.args.args else ""
    if (is_method and owner != "self") or made.name in read(made) or not moved[0].startswith(head):
        return None
    name = f"_{function.name}_{made.name}"
    moved[0] = f"class {name}{moved[0].removeprefix(head)}"
    until = max([last, *(each.lineno for each in uses)])
    below = _renamed(block, uses, f"self.{name}" if is_method else name, last, until)
    left = [*lines[:begin], *dropwhile(lambda line: not line.strip(), below)]
    return block.written(first, until, [*moved, "", *left], function.name)


def object_above(block: Block, line: int) -> Written | None:
    """The function of the block with the object that a statement of that line makes, `optimizer = Adam(0.1)`, made in
    front of it; None of a method, and where what makes it reads what the function binds."""
    function = block.tree
    made = next((each for each in getattr(function, "body", []) if each.lineno == line == each.end_lineno), None)
    if not isinstance(function, ast.FunctionDef) or block.indent or not isinstance(made, ast.Assign):
        return None
    match made:
        case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call() as call):
            if read(call) & assigned([function.args, *function.body]):
                return None
            name = f"{function.name}_{target}"
            lines = block.replaced(call, name, block.first, line)
            moved = [f"{name} = {block.text(call)}", "", ""]
            return block.written(block.first, line, [*moved, *lines], function.name) if lines else None
    return None


def _is_class(node: ast.stmt, line: int) -> bool:
    return isinstance(node, ast.ClassDef) and line == node.lineno


def _is_independent(block: Block, function: ast.FunctionDef, made: ast.ClassDef) -> bool:
    """Whether the class reads no name that the function binds, and holds no text of several lines."""
    others = [function.args, *(each for each in function.body if each is not made)]
    texts = (each for each in ast.walk(made) if isinstance(each, ast.Constant | ast.JoinedStr))
    if any(each.lineno != each.end_lineno for each in texts) or made.name in assigned(others):
        return False
    if made.decorator_list or made.keywords or not all(map(_is_fixed, made.body)):
        return False
    if any(read(each) & assigned(others) for each in made.bases):
        return False
    try:
        [of_function] = symtable("\n".join(block.lines), "", "exec").get_children()
    except (SyntaxError, ValueError):
        return False
    line = made.lineno - block.first + 1
    of_class = next((each for each in of_function.get_children() if each.get_lineno() == line), None)
    return of_class is not None and not any(each.is_free() for each in of_class.get_symbols())


def _is_fixed(node: ast.stmt) -> bool:
    """Whether a statement of a class gives the same each time that it runs, and nothing that its methods may change."""
    match node:
        case ast.FunctionDef(args=args):
            return all(isinstance(each, ast.Constant) for each in (*args.defaults, *filter(None, args.kw_defaults)))
        case ast.Assign(value=ast.Constant()) | ast.Expr(value=ast.Constant()) | ast.Pass():
            return True
    return False


def _names(function: ast.FunctionDef, but: ast.ClassDef) -> Iterator[ast.Name]:
    within = {*ast.walk(but)}
    return (each for each in ast.walk(function) if isinstance(each, ast.Name) and each not in within)


def _renamed(block: Block, uses: list[ast.Name], name: str, after: int, last: int) -> Iterator[str]:
    """The lines between two with another name in the place of each use."""
    for number in range(after + 1, last + 1):
        line = block.lines[number - block.first].encode()
        for use in sorted((each for each in uses if each.lineno == number), key=lambda each: -each.col_offset):
            line = line[: use.col_offset] + name.encode() + line[use.end_col_offset :]
        yield line.decode()
