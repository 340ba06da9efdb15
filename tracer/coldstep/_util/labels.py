"""The labels of a trace, which distinguish it from many: words of the user's, and what CI, SLURM, Kubernetes and
torchrun report of a process. Standard library only: it runs in the traced process.

Of the environment only these variables are ever read, and what looks like a secret is hidden in them, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from coldstep._util.command_secrets import hidden
from coldstep._util.expressions import expression

VARIABLES: dict[str, tuple[str, ...]] = {
    "job": (
        *("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "GITHUB_RUN_ID", "CI_PIPELINE_ID", "BUILDKITE_BUILD_ID"),
        *("CIRCLE_WORKFLOW_ID", "BUILD_BUILDID"),
    ),
    "commit": ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "CIRCLE_SHA1", "GIT_COMMIT", "BUILD_SOURCEVERSION"),
    "branch": (
        *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BUILDKITE_BRANCH", "CIRCLE_BRANCH"),
        *("GIT_BRANCH", "BUILD_SOURCEBRANCHNAME"),
    ),
    "workflow": ("GITHUB_WORKFLOW", "CI_JOB_NAME", "BUILDKITE_PIPELINE_SLUG", "CIRCLE_JOB", "SLURM_JOB_NAME"),
    "task": ("SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"),
    "attempt": ("GITHUB_RUN_ATTEMPT", "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"),
    "node": ("SLURMD_NODENAME", "NODE_NAME"),
    "pod": ("POD_NAME",),
    "namespace": ("POD_NAMESPACE",),
    "local_rank": ("LOCAL_RANK", "SLURM_LOCALID"),
    "world_size": ("WORLD_SIZE", "SLURM_NTASKS"),
}
"""Each label that the environment gives, and the variables that do: the first that is set counts."""

OF_THE_JOB = "COLDSTEP_LABELS"
"""The variable in which the processes of a command find its `--label`s: a JSON object."""
_MOST, _MOST_CHARS = 32, 200
# coldstep: "team"
_NAME = expression(r"[a-z][a-z0-9_]{0,39}")
# Git: "9fceb02d0ae598e95dc970b74767f19372d61af8"
_COMMIT = expression(r"[0-9a-f]{7,64}")
_NOTHING = ("", "none")  # torchrun's word for a job that was given no id


def is_name(text: str) -> bool:
    """Whether a label may be called so: it becomes a column's name."""
    return _NAME.fullmatch(text) is not None


def labels(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The labels of a process: those of its environment; its job's override them, and given ones all."""
    from_environment = {}
    for name, variables in VARIABLES.items():
        if texts := [text for each in variables if (text := environment.get(each, "")) not in _NOTHING]:
            from_environment[name] = texts[0]
    all_labels = from_environment | of_the_job(environment) | dict(given)
    return {name: _harmless(name, value) for name, value in all_labels.items()}


def of_the_job(environment: Mapping[str, str]) -> dict[str, str]:
    """Those that the commands around this process were given."""
    if not (text := environment.get(OF_THE_JOB)):
        return {}
    import json  # for a labelled command's processes alone

    try:
        return labels_in(json.loads(text))
    except (ValueError, RecursionError):  # another program's variable
        return {}


def labels_in(from_trace: object) -> dict[str, str]:
    """The labels that a trace holds: those of another making may be anything, and count only where they are labels."""
    rows = from_trace.items() if isinstance(from_trace, dict) else ()
    known = [(name, value) for name, value in rows if isinstance(name, str) and isinstance(value, str)]
    return {name: value[:_MOST_CHARS] for name, value in known[:_MOST] if is_name(name)}


def _harmless(name: str, value: str) -> str:
    if name == "commit" and _COMMIT.fullmatch(value):  # which would else look like a token
        return value
    return hidden([f"{name}={value[:_MOST_CHARS]}"])[0].partition("=")[2]
