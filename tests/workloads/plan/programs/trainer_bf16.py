"""transformers: a Llama in bfloat16 by the Trainer, with fused AdamW, clipping and a saved checkpoint."""

import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.randint(0, 2000, (256,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


config = LlamaConfig(
    vocab_size=2000, hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
    max_position_embeddings=256, use_cache=False,
)
model = LlamaForCausalLM(config).to(torch.bfloat16)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=4, max_steps=4, bf16=True, optim="adamw_torch_fused", max_grad_norm=1.0,
        logging_steps=2, report_to="none", save_steps=2, save_total_limit=1,
    )
    Trainer(model=model, args=arguments, train_dataset=Tokens()).train()
