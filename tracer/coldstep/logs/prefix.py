"""Takes off what stands before and after the text of a line, and keeps its contents: the time, the process, the
source."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from coldstep._util.slotted import slotted
from coldstep.vocabulary import FRAMEWORKS

_LAST_PID = 1 << 22  # of Linux; what PyTorch 2.3 and older put into its place is a thread's number
_OF_XLA = (".cc", ".h")  # whose lines, in C++, have a thread's number in its place
_MOST_PIECES = 12
_DATE_TEXT = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"

# PyTorch 2.9, 2.13: "V1121 07:47:53.363000 32395 torch/_dynamo/guards.py:5396] text"
# PyTorch 2.13: "W0912 13:20:45.118000 4401 Lib\\site-packages\\torch\\_dynamo\\convert_frame.py:1680] text"
_STAMPED = re.compile(
    r"(?P<before>.*?)[VIWEF](?P<day>\d{4}) (?P<time>\d\d:\d\d:\d\d\.\d+) +(?P<pid>\d{1,20}) (?P<source>\S+:\d+)\] ?"
)
# PyTorch 2.1: "[2023-11-14 10:41:12,330] [0/1] torch._dynamo.guards.__recompiles: [DEBUG] text"
_NAMED = re.compile(
    rf"(?P<before>.*?)\[(?P<date>{_DATE_TEXT})\] (?P<tag>\[\d+/\d+(?:_\d+)?\] )?(?P<logger>torch(?:\.\w+)+?)"
    r"(?:\.(?P<artifact>__\w+))?: \[(?:DEBUG|INFO|WARNING|ERROR)\] ?"
)
# Torchrun: "[default0]:[rank0]:text"
# PyTorch 2.13: "dedicated_log_torch_trace_rank_0_6u3fubwl.log"
_RANK = re.compile(r"\[(?:rank|default)(?P<rank>\d{1,9})\]|_rank_(?P<of_file>\d{1,9})(?:_|\.log\b)")
# GitHub: "2026-11-21T07:47:53.1234567Z text"
_DATE = re.compile(_DATE_TEXT)
# Abseil: "I0000 00:00:1709832534.134273     948 device_compiler.h:186] text"
_SINCE_1970 = re.compile(r"[IWEF]0000 00:00:(?P<s>\d{9,10})(?P<fraction>\.\d{1,9}) ")
_WITHIN_CHARS = 200  # of a line in which a date or a rank is looked for

# GitHub: "train\tRun python train.py\t2026-11-21T07:47:53.1234567Z text"
_JOB = re.compile(rf"(?P<worker>[^\t]{{1,100}}\t[^\t]{{1,100}})\t\ufeff?(?={_DATE_TEXT})")
# GitHub: "2026-11-21T07:47:53.1234567Z text"
# Jenkins: "[2026-11-21T07:47:53.123Z] text"
# Python: "13:20:40,045: text"
_DATED = re.compile(
    rf"\ufeff?[\[(]?(?P<date>{_DATE_TEXT}|\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?)[\])]?[:,]?(?: [-|] ?| |$|(?=\w))"
)
# Python: "WARNING:text"
# Rich: "WARNING  text"
# Loguru: "INFO     | text"
_LEVEL = re.compile(
    r"[\[(<]?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)[\])>]?\s{0,8}(?::|[-|](?= ))\s?"
    r"|[\[(<](?:DEBUG|INFO|WARN(?:ING)?|ERROR)[\])>] "
    r"|(?:(?:INFO|WARN) {1,5}|(?:TRACE|DEBUG|ERROR|FATAL) {1,4}|NOTICE {1,3}|WARNING {1,2}|CRITICAL )"
)
# Python: "jax._src.dispatch:204: text"
# Pytest: "jax._src.dispatch:dispatch.py:204 text"
# Python: "[jax._src.dispatch] text"
_LOGGER = re.compile(
    rf"\[?(?P<logger>[a-z_]\w*(?:\.[a-z_]\w*)+|absl|py\.warnings|root|{'|'.join(FRAMEWORKS)})\b\]?"
    r"(?::(?P<source>[\w/\\.-]{0,200}\.py:\d+)[: ]? ?|(?::\d+)?(?:: ?| [-|] )|:\d+ |(?<=\]) )"
)
# PyTorch 2.13: ".../torch/_dynamo/guards.py:2772] text"
# Abseil: "dispatch.py:204] text"
_SOURCE = re.compile(r"(?P<source>[\w./\\:-]{0,200}\.py:\d+)(?:\] ?| [-|] )")
# Vllm: "10-08 06:06:34 [backends.py:539] text"
# Vllm: "02-18 04:51:36 backends.py:577] text"
_VLLM = re.compile(r"(?P<day>\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d) \[?[\w/]{1,60}\.py:\d{1,6}\] ?")
# Vllm: "(EngineCore pid=7) text"
# Vllm: "(Worker_TP1_EP1 pid=7) text"
# Ray: "(RayTrainWorker pid=7, ip=10.0.0.2) text"
_PID = re.compile(
    r"\((?:[^()]|\([^()]{0,40}\)){0,60}?\b(?:(?:rank=|Worker_TP)(?P<rank>\d{1,6})(?:_EP\d{1,6})? )?pid=(?P<pid>\d{1,9})"
    r"(?:, ip=(?P<worker>[\w.:-]{1,60}))?\):? ?"
)
# Markdown: "    (EngineCore pid=7) text"
# Markdown: "    INFO 10-08 06:06:34 [backends.py:539] text"
_INDENTED = re.compile(r" {1,8}(?=\(\w[^()]{0,60} pid=\d|[A-Z]{4,8} \d\d-\d\d \d\d:\d\d:)")
# Journald: "Nov 21 07:47:53 node1 python[123]: text"
_JOURNAL = re.compile(
    r"[A-Z][a-z]{2} [ \d]?\d (?P<date>\d\d:\d\d:\d\d(?:\.\d+)?) (?P<worker>[\w.-]{1,100}) "
    r"[\w./@-]{1,100}(?:\[(?P<pid>\d{1,20})\])?: "
)
# Torchrun: "[rank0]: text"
# Mpirun: "[1,0]<stderr>:text"
# PyTorch: "Rank 0: text"
_OF_RANK = re.compile(
    r"\[(?:(?:[Rr]ank|default) ?|\d{1,6},)(?P<rank>\d{1,6})\](?:<std\w{3}>)?:? ?|[Rr]ank ?(?P<rank_>\d{1,6}): ?"
)
# Compose: "trainer-0  | text"
# Kubectl: "[pod/trainer-0/main] text"
# Pytest: "[gw0] text"
# Pdsh: "node1: text"
_WORKER = re.compile(
    r"(?P<worker>[A-Za-z][\w.-]{0,100}) {1,40}\| ?"
    r"|\[(?P<worker_>(?:pod/|tests?[\W_])[^\]\s]{1,200}|[A-Za-z][\w-]{0,60}\d)\]:? ?"
    r"|(?P<worker__>(?:worker|node|trainer|host|gpu|task|replica|pod|actor|server|learner|process|ip)[\w.-]{0,60}\d"
    r"|\d{1,3}(?:\.\d{1,3}){3}): "
)
# Srun: "3: text"
_LABEL = re.compile(r" {0,6}(?P<label>\d{1,6}): ?(?!\d)")
# Srun: "3: text"
_LABELS = re.compile(rb"^ {0,6}(\d{1,6}): ", re.MULTILINE)
# Kubernetes: "stderr F text"
# Buildkit: "#12 34.56 text"
# Azure: "##[warning]text"
# Markdown: "> text"
# Tqdm: " 10%|█         | 1/10 [00:00<00:01,  5.00it/s]text"
# Pytest: "tests/test_a.py::test_step text"
_NOISE = re.compile(
    r"std(?:out|err) [FP] |#\d+ (?:\d+\.\d+ )?|##\[\w+\]|::\w+::|(?:>{1,3}|#{1,3}|\|) "
    r"|[^|]{0,60}?\d{1,3}%\|[^|]{0,300}\|[^\]\n]{0,100}\] ?|\S{1,200}\.py::\S{1,200} "
)
_PIECES = (_JOB, _DATED, _VLLM, _LEVEL, _LOGGER, _SOURCE, _PID, _JOURNAL, _OF_RANK, _NOISE, _WORKER, _LABEL)

# Ray: "text [repeated 7x across cluster]"
# Python: "text [jax._src.dispatch]"
# Rich: "text         dispatch.py:204"
_BEHIND = re.compile(
    r"(?: \[repeated \d+x across cluster\].*"
    r"| [\[(](?:jax|torch|absl)[\w.]{0,200}(?::\d+)?[\])]"
    r"|(?<!\s)\s{2,400}[\w.-]{1,100}\.py:\d+)$"
)
# Markdown: "   **last reason: 0/7: m == 3**"
_BOLD = re.compile(r"^(\s{0,8})\*\*(?=\w)(.+?)(?:\*\*)?$")
# Pdsh: "node12"
_DIGITS = re.compile(r"\d+")


@slotted
class Carried:
    """A line, and what stood around it."""

    text: str
    """The rest of it."""
    source: str = ""
    """The file and line that logged it, with "/" on every system; empty where the line has none."""
    date: str = ""
    """The date that stands before all else: "2026-11-21T07:47:53.123Z"; empty where there is none."""
    stamp: tuple[str, str] | None = None
    """The framework's own, or vLLM's: "1121", "07:47:53.363000"."""
    is_stamped: bool = False
    """Whether it has what PyTorch puts before each line of a message, and not before the first alone."""
    logged: str = ""
    """The time that stands next to the text, as it is written."""
    pid: int | None = None
    rank: int | None = None
    worker: str = ""
    """The host, pod, container, job or test worker that the line names."""
    around: str = ""
    """What stood before the text, without its numbers: lines of one handler have it in common."""


def read(line: str, labels: bool = False) -> Carried:
    """Take off what stands around a line; `labels`: whether "3: " before it names a rank."""
    if line.startswith("\t"):  # a payload of PyTorch's structured trace
        return Carried(line)
    line = line.rstrip()
    stamp = _STAMPED.match(line) or _NAMED.match(line)
    carried = Carried("")
    at = _read_pieces(carried, line if stamp is None else stamp["before"], labels)
    if stamp is None:
        carried.text = line[at:]
    else:
        _read_stamp(carried, stamp)
    rank = _RANK.search(line, 0, _WITHIN_CHARS if stamp is None else stamp.end("before"))
    if carried.rank is None and rank is not None:
        carried.rank = int(rank["rank"] or rank["of_file"])
    date = _DATE.search(line, 0, _WITHIN_CHARS) if not carried.date and carried.stamp is None else None
    carried.date = date[0] if date is not None else carried.date
    if not carried.date and (since := _SINCE_1970.search(line, 0, _WITHIN_CHARS)):
        carried.date = f"{datetime.fromtimestamp(int(since['s']), UTC):%Y-%m-%dT%H:%M:%S}{since['fraction']}"
    carried.text = _BOLD.sub(r"\1\2", _BEHIND.sub("", carried.text)) if "**" in line else _BEHIND.sub("", carried.text)
    return carried


def labels_ranks(block: bytes) -> bool:
    """Whether "3: " before these lines names a rank, as with `srun --label`, and not the number of the line."""
    labels = _LABELS.findall(block)
    return len(set(labels)) < len(labels)


def rank_of(name: str) -> int | None:
    """The rank in a file's name."""
    match = _RANK.search(name)
    return int(match["rank"] or match["of_file"]) if match is not None else None


def _read_stamp(carried: Carried, stamp: re.Match[str]) -> None:
    line = stamp.string
    carried.around = _DIGITS.sub("0", line[: stamp.start("source" if stamp.re is _STAMPED else "logger")])
    carried.text = line[stamp.end() :]
    carried.is_stamped = True
    if stamp.re is _STAMPED:
        number = int(stamp["pid"])
        if not stamp["source"].rpartition(":")[0].endswith(_OF_XLA):
            carried.pid = carried.pid or (number if 0 < number <= _LAST_PID else None)
        carried.source = stamp["source"].replace("\\", "/")
        carried.stamp = stamp["day"], stamp["time"]
        carried.logged = f"{stamp['day']} {stamp['time']}"
        return
    artifact = f"[{stamp['artifact']}] " if stamp["artifact"] else ""
    carried.text = f"{stamp['tag'] or ''}{artifact}{carried.text}"
    carried.source = f"{stamp['logger'].replace('.', '/')}.py:0"
    carried.date = carried.logged = stamp["date"]


def _read_pieces(carried: Carried, line: str, labels: bool) -> int:
    """What is known to stand before a text. Returns where the text begins."""
    indent = _INDENTED.match(line)
    at = indent.end() if indent is not None else 0
    for _ in range(_MOST_PIECES):
        piece_match = next((match for piece in _PIECES if (match := piece.match(line, at)) and match.end() > at), None)
        if piece_match is None:
            break
        fields = {name.rstrip("_"): text for name, text in piece_match.groupdict().items() if text is not None}
        if piece_match.re is _LABEL and labels:
            fields["rank"] = fields["label"]
        _keep(carried, fields)
        at = piece_match.end()
    carried.around = _DIGITS.sub("0", line[:at])
    return at


def _keep(carried: Carried, fields: dict[str, str]) -> None:
    if "date" in fields:
        carried.logged = fields["date"]
        if len(fields["date"]) > len("07:47:53.123456789"):
            carried.date = carried.date or fields["date"]
    if "day" in fields and not carried.date:
        carried.stamp = fields["day"].replace("-", ""), fields["time"]
    if "rank" in fields:
        carried.rank = int(fields["rank"])
    if "pid" in fields:
        carried.pid = int(fields["pid"])
    carried.worker = fields.get("worker", carried.worker)
    carried.source = fields.get("source", carried.source).replace("\\", "/")
