"""Makes a class of fields a class with slots at once, and a dataclass when the first object of it is made.

`dataclass` compiles methods anew for each class, and there are a hundred of them, for which every traced process waits;
of most of them no object is ever made. What `dataclass` takes to write `__init__` is four times what Python takes to
compile it: that is done here. And what `dataclasses` itself imports (`inspect`, `ast`, `dis`) takes a third of what
importing coldstep took: it is imported where an object is asked for its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)
_MISSING: Any = type("Missing", (), {})()
_OF_DATACLASS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__init__")
_NOT_COPIED = ("__dict__", "__weakref__")
_FEW = 3  # objects: a class has often no more, and to compile its `__init__` takes as long as to fill ten


if TYPE_CHECKING:
    from dataclasses import field as field
else:

    def field(**about: Any) -> _Field:
        """As `dataclasses.field`."""
        return _Field(about)


class _Field:
    """What `field` was given."""

    __slots__ = ("about",)

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about


@dataclass_transform(field_specifiers=(field,))
def slotted(cls: Class) -> Class:
    """As `dataclass(slots=True)`; a `__repr__` of the class's own stays. Raises TypeError for `dataclasses.field`."""
    made: Any = slotted_object(cls)
    made.__eq__, made.__hash__ = _equal, None
    if made.__repr__ is object.__repr__:
        made.__repr__ = _printed
    result: Class = made
    return result


@dataclass_transform(field_specifiers=(field,), eq_default=False)
def slotted_object(cls: Class) -> Class:
    """As `dataclass(slots=True, eq=False, repr=False)`."""
    body = {name: value for name, value in vars(cls).items() if name not in _NOT_COPIED}
    names = tuple(body.get("__annotations__", ()))
    for name in names:
        if type(body.get(name)).__name__ == "Field":  # which would be the value of each object
            raise TypeError(f"{cls.__name__}.{name}: take `field` from {__name__}")
    kept = {name: value for name, value in body.items() if name not in names}
    made: Any = type(cls)(cls.__name__, cls.__bases__, kept | {"__slots__": names})
    made.__qualname__ = cls.__qualname__

    def complete() -> None:
        import dataclasses

        made_of = {
            name: dataclasses.field(**value.about) if isinstance(value, _Field) else value
            for name, value in body.items()
        }
        # of a class of its own, since `dataclass` changes it: two threads may come here at a time
        whole: Any = dataclasses.dataclass(eq=False, repr=False)(type(cls)(cls.__name__, cls.__bases__, made_of))
        for name in _OF_DATACLASS:
            setattr(made, name, getattr(whole, name))

    without = list(range(_FEW))
    known: list[Defaults | None] = []

    def begin(self: Any, *values: Any, **named: Any) -> None:
        if not known:
            known.append(_defaults(made, body, names))
        defaults = known[0]
        if without and defaults is not None and _is_filled(self, defaults, values, named):
            del without[:1]  # two threads may come here at a time
            return
        if defaults is not None:
            made.__init__ = _initializer(made, defaults)
        else:
            complete()
        made.__init__(self, *values, **named)

    made.__init__, made.__dataclass_fields__ = begin, _Fields(made, complete)
    result: Class = made
    return result


Defaults = dict[str, tuple[Any, Any]]
"""Of each field its default and what makes that, or `_MISSING`."""


def _defaults(made: Any, body: dict[str, Any], names: tuple[str, ...]) -> Defaults | None:
    """None where only `dataclass` knows them: fields of a base, or by keyword alone."""
    if any(hasattr(base, "__dataclass_fields__") for base in made.__bases__):
        return None
    defaults: Defaults = {}
    for name in names:
        value = body.get(name, _MISSING)
        if not isinstance(value, _Field):
            defaults[name] = value, _MISSING
        elif value.about.keys() <= {"default", "default_factory"}:
            defaults[name] = value.about.get("default", _MISSING), value.about.get("default_factory", _MISSING)
        else:
            return None
    return defaults


def _is_filled(self: Any, defaults: Defaults, values: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Give an object its fields; False where `__init__` must refuse these values."""
    given = dict(zip(defaults, values, strict=False)) | named
    if len(given) != len(values) + len(named) or not given.keys() <= defaults.keys():
        return False
    for name, (default, make) in defaults.items():
        if name not in given:
            if default is make:  # both are missing
                return False
            given[name] = default if make is _MISSING else make()
    for name, value in given.items():
        setattr(self, name, value)
    if hasattr(self, "__post_init__"):
        self.__post_init__()
    return True


def _initializer(made: Any, defaults: Defaults) -> Any:
    parameters, lines, known = ["self"], ["pass"], {"MISSING": _MISSING}
    for name, (default, make) in defaults.items():
        known[f"_default_{name}"], known[f"_make_{name}"] = default, make
        parameters.append(name if default is make is _MISSING else f"{name}=_default_{name}")
        value = name if make is _MISSING else f"_make_{name}() if {name} is MISSING else {name}"
        lines.append(f"self.{name} = {value}")
    if hasattr(made, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n    " + "\n    ".join(lines), known)
    written: Any = known["__init__"]
    written.__qualname__ = f"{made.__qualname__}.__init__"
    return written


class _Fields:
    """Stands for the fields until somebody asks for them."""

    def __init__(self, made: Any, complete: Any) -> None:
        self._made, self._complete = made, complete

    def __get__(self, _: object, __: type) -> Any:
        self._complete()
        return self._made.__dataclass_fields__


def _equal(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


def _printed(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__qualname__}({fields})"
