"""transformers: gradient checkpointing by the Trainer."""

import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.randint(0, 2000, (512,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


config = LlamaConfig(
    vocab_size=2000, hidden_size=256, intermediate_size=688, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=8,
    max_position_embeddings=512,
)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=4, max_steps=3, bf16=True, gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False}, report_to="none", save_strategy="no",
    )
    Trainer(model=LlamaForCausalLM(config), args=arguments, train_dataset=Tokens()).train()
