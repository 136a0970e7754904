"""Trains a small language model on random tokens with transformers' Trainer."""

import os
import sys

import torch
import torch.distributed as dist
from _client import BACKEND, FOLDER, begin, record
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

by_name = sys.argv[1:] == ["by_name"]
rank = int(os.environ["RANK"]) if by_name else begin()
generator = torch.Generator().manual_seed(0)
tokens = torch.randint(0, 64, (96, 16), generator=generator)
rows = [{"input_ids": row, "labels": row} for row in tokens]
torch.manual_seed(0)
config = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2)
trainer = Trainer(
    GPT2LMHeadModel(config),
    TrainingArguments(
        output_dir=str(FOLDER),
        use_cpu=True,
        ddp_backend=BACKEND if by_name else None,
        per_device_train_batch_size=4,
        max_steps=10,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=5,
        save_steps=5,
        report_to=[],
        disable_tqdm=True,
    ),
    train_dataset=rows[:80],
    eval_dataset=rows[80:],
)
trainer.train()
history = trainer.state.log_history
losses = [row[key] for row in history for key in ("loss", "eval_loss") if key in row]
record(rank, losses, trainer.accelerator.unwrap_model(trainer.model).state_dict())
dist.destroy_process_group()
