"""A stripped trace: nothing in it that only its owner may know, and the same diagnosis."""

from __future__ import annotations

import json
import re
import socket
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import in_process
import program
import pytest
from google.protobuf.message import Message
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Packets
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

import coldstep
from coldstep.model import Trace

FOLDER, SCRIPT, TOKEN = "acme-internal", "nightingale_train.py", "tok-5f3a9c"
SECRETS = (FOLDER, "nightingale", TOKEN, "hush-hush", "sotto", "86421357", "pianissimo")
TRAIN = """
import functools, os, subprocess, sys, threading
import jax, jax.numpy as jnp
import torch
import coldstep

MODE = "hush-hush"

@functools.partial(jax.jit, static_argnames=("mode", "seed"))
def predict(x, mode, seed):
    return jnp.tanh(x) * len(mode) + seed  # pianissimo, to oneself

def forward(x):
    return x * 2 if MODE == "hush-hush" else x * 3

def train():
    global MODE
    compiled = torch.compile(forward, backend="eager")
    for n, mode in enumerate(("sotto voce", "sotto voce", "sotto", "sotto")):
        with coldstep.step("train"):
            coldstep.wait(predict(jnp.ones((4, n // 2 + 3)), mode, seed=86421357))
            MODE = "hush-hush" if n < 2 else "pianissimo"
            compiled(torch.ones(4))
    subprocess.run(["true", "--key=sotto"])

worker = threading.Thread(target=train, name="nightingale worker")
worker.start()
worker.join()
raise ValueError("no file /data/nightingale/pianissimo.csv for sotto")
"""


def packets(data: bytes) -> Iterator[TracePacket]:
    """All packets, those in compressed ones too."""
    for packet in Packets.FromString(data).packet:
        if packet.compressed_packets:
            yield from packets(zlib.decompress(packet.compressed_packets))
        else:
            yield packet


def texts(message: Message) -> Iterator[str]:
    """Every text in a message and in those within it."""
    for _, value in message.ListFields():
        for item in value if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else (value,):
            if isinstance(item, Message):
                yield from texts(item)
            elif isinstance(item, (str, bytes)):
                yield item if isinstance(item, str) else item.decode("utf-8", "replace")


def found(words: Iterable[str], path: Path) -> list[str]:
    """Those that stand in the file, or in its packets: not only as a part of another word."""
    whole = path.read_bytes()
    content = list(packets(whole))
    unpacked = b"".join(packet.SerializeToString() for packet in content)
    told = "\n".join({text for packet in content for text in texts(packet)})
    return [
        word
        for word in words
        if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", told)
        # so few bytes stand among the numbers by chance
        or (len(word) > 4 and (word.encode() in whole or word.encode() in unpacked))
    ]


def figures(trace: Trace) -> list[object]:
    """All that must be as it was."""
    return [
        [(row.kind, row.step, row.label, row.wall_ns, row.unattributed_ns, row.compiles) for row in trace.intervals],
        [(sum(row.phases.values()), sum(row.sampled.values())) for row in trace.intervals],
        [(row.id, row.function, row.outcome, row.reason, row.variant, row.wall_ns) for row in trace.compiles],
        [(row.compile, row.previous, row.cause, row.pattern, row.argument, row.confidence) for row in trace.recompiles],
        [[(change.mechanism, change.argument) for change in row.changes] for row in trace.recompiles],
        [(row.kind, row.count, row.compiles) for row in trace.graph_breaks],
        trace.settling[0].verdict,
        trace.cost[0].time_to_settled_ns,
        [(row.kind, row.step) for row in trace.findings],
        trace.run.ended,
        trace.memory,
        trace.processes[0].versions,
    ]


@pytest.mark.jax
@pytest.mark.torch
def test_nothing_private_is_left_and_the_diagnosis_is_the_same(tmp_path: Path, engine: ModuleType) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / SCRIPT).write_text(TRAIN)
    env = {"NIGHTINGALE_KEY": TOKEN, "JAX_COMPILATION_CACHE_DIR": str(folder / "cache")}
    run = ["coldstep", "run", "-o", "own.pftrace", "--ir", "--stacks", SCRIPT, f"--token={TOKEN}"]
    done = program.warm("torch", run, folder, env=env, check=False)
    assert done.returncode == 1, done.stderr
    own, public = folder / "own.pftrace", folder / "public.pftrace"
    before = own.read_bytes()
    everything = [*SECRETS, socket.gethostname(), str(tmp_path), "func.func public", "--token"]
    # the test can fail: all of it is in the trace as it was recorded, but what looks like a token never is
    assert found(everything, own) == [text for text in everything if text != TOKEN]

    stripped = in_process.run("strip", "own.pftrace", "-o", "public.pftrace", cwd=folder)
    assert (stripped.returncode, stripped.stderr) == (0, "")
    assert own.read_bytes() == before
    assert found([*everything, f"{Path.home()}/", sys.prefix], public) == []

    trace, known = coldstep.load(public), coldstep.load(own)
    assert {row.cause for row in known.recompiles} >= {"static_argument", "global"}
    assert figures(trace) == figures(known)
    assert (trace.run.command, trace.processes[0].host in ("", socket.gethostname())) == ([], False)
    assert all(row.advice == original.advice for row, original in zip(trace.recompiles, known.recompiles, strict=True))
    engine.assert_clean(public)
    [steps] = engine.query(
        public, "select s.name from slice s join track t on t.id = s.track_id where t.name = 'Steps' order by s.ts"
    )
    assert [row["name"].split()[1] for row in steps] == ["0", "1", "2", "3"]
    for words in (["report", "public.pftrace"], ["report", "public.pftrace", "--json"]):
        report = in_process.run(*words, cwd=folder)
        assert report.returncode == 0, report.stderr
        assert not [word for word in SECRETS if word in report.stdout]
    assert len(json.loads(report.stdout)["recompiles"]) == len(known.recompiles)

    # and once more: a stripped trace is a trace
    again = in_process.run("strip", "public.pftrace", "-o", "again.pftrace", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert figures(coldstep.load(folder / "again.pftrace")) == figures(known)


def test_what_cannot_be_stripped_is_said_in_one_line(tmp_path: Path) -> None:
    with coldstep.trace(tmp_path / "t.pftrace", collectors=["imports"]):
        pass
    (tmp_path / "text.pftrace").write_text("this is no trace")
    (tmp_path / "link.pftrace").symlink_to("t.pftrace")
    whole = (tmp_path / "t.pftrace").read_bytes()
    for words, said in (
        (["text.pftrace", "-o", "out"], "is not a Perfetto trace"),
        (["absent.pftrace", "-o", "out"], "No such file"),
        (["t.pftrace", "-o", "t.pftrace"], "another name"),
        (["link.pftrace", "-o", "t.pftrace"], "another name"),
        (["t.pftrace", "-o", "no/such/folder"], "cannot write"),
    ):
        done = in_process.run("strip", *words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "t.pftrace").read_bytes() == whole
    assert not (tmp_path / "out").exists()
