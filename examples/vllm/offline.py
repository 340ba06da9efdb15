"""vLLM offline: `LLM(…)`, a warm-up, `ready()` in its worker, and requests that ask for more than it did."""

from __future__ import annotations

import json
import sys
import time

from vllm import LLM, SamplingParams


def main() -> None:
    """Print one line of JSON: the tokens of every request, the seconds until the engine was there, what it counted."""
    began = time.monotonic()
    llm = LLM(
        sys.argv[1], dtype="float32", max_model_len=256, max_num_seqs=8, worker_extension_cls="marks.Marks", seed=0
    )
    started = time.monotonic() - began

    def ask(*prompts: str, logprobs: int | None = None) -> list[list[int]]:
        wanted = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, logprobs=logprobs)
        return [list(each.outputs[0].token_ids) for each in llm.generate(list(prompts), wanted, use_tqdm=False)]

    tokens = [ask("w1 w2 w3", "w5 w6")]
    llm.collective_rpc("coldstep_ready")
    tokens += [ask("w1 w2 w3"), ask("w7 w8", logprobs=2), ask("w1 w2 w3", "w5 w6", logprobs=2)]
    print(json.dumps({"tokens": tokens, "started": started, "counted": llm.collective_rpc("graphs_counted")}))


if __name__ == "__main__":
    main()
