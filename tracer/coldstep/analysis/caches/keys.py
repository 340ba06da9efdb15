"""What two keys of a cache differ in: by hashes, never by texts; what follows from another difference is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from coldstep._util.slotted import slotted
from coldstep.model import Component
from coldstep.signature import Change
from coldstep.vocabulary import is_of_program

CACHE_FOLDER = "xla_gpu_per_fusion_autotune_cache_dir"
"""The option of XLA's that JAX derives from the cache's own directory."""
COMPUTATION, _OPTIONS = "computation", "compile_options"
_CONFIGURATIONS = ("inductor_config", "autograd_config")
"""Of PyTorch's: a trace has it option by option, a log as a whole. The two cannot be compared."""
WITH_PLACES = "jax_compilation_cache_include_metadata_in_key"
"""The option that makes files and lines part of JAX's computation; no component of its own, but listed as one where it
is on."""
_OF_SIZE = f"{_OPTIONS}.xla_detailed_logging"
"""The option of XLA's that JAX derives from how large the program is."""
_PLACED = {"device", "sharding", "committed"}
"""The keys of a signature that hold where it runs: such compile options follow."""
_FIRST = (
    "jax_lib version", "backend version", "torch_version", "system_info", "XLA flags", "compression", "custom_hook",
    "cache_key_tag", "accelerator_config", "deterministic_algorithms", "default_dtype",
)  # fmt: skip
"""What explains the others comes first."""
_FOLLOW = {
    "accelerator_config": (f"{_OPTIONS}.device_assignment",),
    "default_dtype": ("example_inputs", "gm"),
    "deterministic_algorithms_settings": ("inductor_config[deterministic]",),
    "deterministic_algorithms": ("deterministic_algorithms_settings", "inductor_config[deterministic]"),
    "grad_enabled": ("fx_kwargs[is_inference]", "gm"),
    "autocast_state": ("gm",),
    WITH_PLACES: (COMPUTATION,),
    **dict.fromkeys(("XLA_FLAGS", "LIBTPU_INIT_ARGS", "TPU_MEGACORE", "XLA_HLO_DEBUG", "XLA_IR_DEBUG"), ("graph",)),
}
"""By component, those that differ for its sake."""
_MOST_CHANGES = 4  # of a signature


@slotted
class Difference:
    """One component that differs, both values in words; None where it is not there, or has no words."""

    name: str
    before: str | None
    after: str | None


Components = Sequence[Component]


def key_differences(
    before: Components, after: Components, changes: Sequence[Change], options: Mapping[str, Mapping[str, str]]
) -> list[Difference]:
    """How the two keys differ, the cause of the rest first; nothing where one of them was not seen. `changes` is how
    the compiles' signatures differ, which explains more where the program itself is another; `options` are those of
    components that are a configuration, by hash."""
    if not before or not after:
        return []
    old, new = ({row.name: row for row in components} for components in (before, after))
    unlike = [name for name in _CONFIGURATIONS if (name in old) != (name in new)]
    other = (name for name in {**old, **new} if _hash(old.get(name)) != _hash(new.get(name)))
    names = [name for name in other if name.partition("[")[0] not in unlike]
    differing: list[Difference] = []
    parts = [name for name in names if is_of_program(name)]
    for name in names:
        if name == _OPTIONS:
            differing += _of_options(_text(old.get(name)), _text(new.get(name)))
        elif name in _CONFIGURATIONS:
            differing += _of_configuration(name, *(options.get(_hash(side.get(name)) or "") for side in (old, new)))
        elif name not in parts:
            differing.append(Difference(name, _text(old.get(name)), _text(new.get(name))))
    by_name = {row.name: row for row in differing}
    if (flags := by_name.get("XLA flags")) is not None:
        known = f"{flags.before} {flags.after}"
        differing = [row for row in differing if not row.name.startswith(_OPTIONS) or not _is_of_flags(row.name, known)]
    if COMPUTATION in parts and any(change.mechanism in _PLACED for change in changes):
        differing = [row for row in differing if not row.name.startswith(_OPTIONS) or row.name.endswith(CACHE_FOLDER)]
    if COMPUTATION in parts:
        differing = [row for row in differing if row.name != _OF_SIZE]
    follow = {name for cause in by_name for name in _FOLLOW.get(cause.partition("[")[0], ())}
    differing = [row for row in differing if row.name not in follow]
    parts = [name for name in parts if name not in follow and name.partition("[")[0] not in follow]
    differing.sort(key=lambda row: _rank(row.name))
    if parts:
        differing += _of_program(parts, old, new, changes)
    return differing


def _of_program(
    parts: list[str], old: dict[str, Component], new: dict[str, Component], changes: Sequence[Change]
) -> Iterator[Difference]:
    """The program itself is another: how its signature differs, where it does."""
    for change in changes[:_MOST_CHANGES]:
        yield Difference(change.argument or change.mechanism, change.before, change.after)
    for name in parts if not changes else ():
        if name == COMPUTATION:  # its words say no more than its size
            yield Difference(name, _identified(old.get(name)), _identified(new.get(name)))
        else:
            yield Difference(name, *_first_difference(_text(old.get(name)), _text(new.get(name))))


def _identified(component: Component | None) -> str | None:
    """A component's words, and enough of its hash to tell it from another."""
    if component is None:
        return None
    digest = component.hash[:8]
    return f"{component.text}, {digest}" if component.text else digest


def _first_difference(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    """Of two texts the first lines that differ; nothing where they read alike."""
    for was, now in zip_longest((before or "").splitlines(), (after or "").splitlines()):
        if was != now:
            return was and was.strip(), now and now.strip()
    return None, None


def _of_options(before: str | None, after: str | None) -> list[Difference]:
    """Compile options line by line; where their texts do not tell, as one."""
    return _each(f"{_OPTIONS}.{{}}", _lines(before), _lines(after)) or [Difference(_OPTIONS, None, None)]


def _of_configuration(name: str, before: Mapping[str, str] | None, after: Mapping[str, str] | None) -> list[Difference]:
    """A configuration option by option; where they are not known of both, as one."""
    differences = _each(f"{name}[{{}}]", before, after) if before is not None and after is not None else []
    return differences or [Difference(name, None, None)]


def _each(form: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[Difference]:
    """What has another value than before, each by its name in that form."""
    unlike = (name for name in {**before, **after} if before.get(name) != after.get(name))
    return [Difference(form.format(name), before.get(name), after.get(name)) for name in unlike]


def _lines(text: str | None) -> dict[str, str]:
    values = {name: value for name, _, value in (line.partition(": ") for line in (text or "").splitlines())}
    if folder := values.get(CACHE_FOLDER):
        values[CACHE_FOLDER] = folder.strip('"').removesuffix(f"/{CACHE_FOLDER}")
    return values


def _is_of_flags(name: str, flags: str) -> bool:
    """Whether compile options differ for what XLA's flags say: by name, or with nothing else to show."""
    option = name.removeprefix(_OPTIONS).removeprefix(".")
    return not option or option in flags


def _rank(name: str) -> int:
    stem = name.partition("[")[0]
    return _FIRST.index(stem) if stem in _FIRST else len(_FIRST)


def _hash(component: Component | None) -> str | None:
    return component.hash if component is not None else None


def _text(component: Component | None) -> str | None:
    return component.text if component is not None else None
