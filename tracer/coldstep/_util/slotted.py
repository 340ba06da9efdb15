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

    def begin(self: Any, *values: Any, **named: Any) -> None:
        if (written := _initializer(made, body, names)) is not None:
            made.__init__ = written
        else:
            complete()
        made.__init__(self, *values, **named)

    made.__init__, made.__dataclass_fields__ = begin, _Fields(made, complete)
    result: Class = made
    return result


def _initializer(made: Any, body: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Its `__init__`; None where only `dataclass` knows how that is to be: fields of a base, or by keyword alone."""
    if any(hasattr(base, "__dataclass_fields__") for base in made.__bases__):
        return None
    parameters, lines, known = ["self"], ["pass"], {"MISSING": _MISSING}
    for name in names:
        default: Any = body.get(name, _MISSING)
        factory: Any = _MISSING
        if isinstance(default, _Field):
            about = default.about
            if not about.keys() <= {"default", "default_factory"}:
                return None
            default, factory = about.get("default", _MISSING), about.get("default_factory", _MISSING)
        known[f"_default_{name}"], known[f"_make_{name}"] = default, factory
        has_default = default is not _MISSING or factory is not _MISSING
        parameters.append(f"{name}=_default_{name}" if has_default else name)
        value = name if factory is _MISSING else f"_make_{name}() if {name} is MISSING else {name}"
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
