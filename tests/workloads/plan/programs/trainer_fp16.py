"""transformers: a causal language model by the Trainer, with fp16 mixed precision."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.randint(0, 1000, (128,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


config = GPT2Config(vocab_size=1000, n_positions=128, n_embd=256, n_layer=4, n_head=8)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=8, max_steps=4, fp16=True, gradient_accumulation_steps=2,
        logging_steps=1, report_to="none", save_strategy="no", dataloader_pin_memory=True,
    )
    Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=Tokens()).train()
