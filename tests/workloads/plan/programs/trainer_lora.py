"""peft: LoRA on a frozen bfloat16 Llama, by the Trainer."""

import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.randint(0, 2000, (256,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


config = LlamaConfig(
    vocab_size=2000, hidden_size=512, intermediate_size=1376, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4,
    max_position_embeddings=256, use_cache=False,
)
model = LlamaForCausalLM(config).to(torch.bfloat16)
model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, lora_dropout=0.05, target_modules=["q_proj", "v_proj"]))
model.print_trainable_parameters()
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=4, max_steps=4, bf16=True, learning_rate=2e-4, report_to="none", save_strategy="no",
    )
    Trainer(model=model, args=arguments, train_dataset=Tokens()).train()
