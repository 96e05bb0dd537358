"""transformers: T5 from sequence to sequence by the Trainer, with Adafactor and label smoothing."""

import tempfile

import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config, T5ForConditionalGeneration


class Pairs(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return {"input_ids": torch.randint(2, 1000, (96,), generator=generator), "labels": torch.randint(2, 1000, (48,), generator=generator)}


config = T5Config(vocab_size=1000, d_model=256, d_kv=32, d_ff=512, num_layers=3, num_heads=8, decoder_start_token_id=0)
with tempfile.TemporaryDirectory() as folder:
    arguments = Seq2SeqTrainingArguments(
        output_dir=folder, per_device_train_batch_size=8, max_steps=4, optim="adafactor", report_to="none",
        save_strategy="no",
    )
    Seq2SeqTrainer(model=T5ForConditionalGeneration(config), args=arguments, train_dataset=Pairs()).train()
