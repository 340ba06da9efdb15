"""TRL's SFTTrainer on a tiny Llama of random weights and made-up data, which the trainer compiles (torch_compile)."""

from __future__ import annotations

import torch
from counts import dynamo_graphs, show
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

torch.manual_seed(0)
words = ["<pad>", "<eos>", *(f"w{n}" for n in range(62))]
tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="w0"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=1,
    )
)
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(
        output_dir="trl_out",
        per_device_train_batch_size=4,
        max_steps=6,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        torch_compile=True,
        torch_compile_backend="aot_eager",
        max_length=32,
        disable_tqdm=True,
    ),
    train_dataset=Dataset.from_dict(
        {"input_ids": [[(n * 7 + i) % 62 + 2 for i in range(12 + n % 3)] for n in range(24)]}
    ),
    processing_class=PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>"),
)
trainer.train()
show(
    [row["loss"] for row in trainer.state.log_history if "loss" in row],
    trainer.state.global_step,
    dynamo_graphs(),
    "trl",
    "accelerate",
    "transformers",
    "torch",
)
