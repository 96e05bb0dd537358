"""transformers: BERT classifies sequences of several lengths; the Trainer evaluates after each epoch with metrics."""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        length = int(torch.randint(20, 128, (), generator=generator))
        return {"input_ids": torch.randint(5, 1000, (length,), generator=generator), "label": index % 3}


def collate(rows):
    ids = torch.nn.utils.rnn.pad_sequence([row["input_ids"] for row in rows], batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.tensor([row["label"] for row in rows])}


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


config = BertConfig(
    vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=8, intermediate_size=1024, max_position_embeddings=128, num_labels=3,
)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=8, per_device_eval_batch_size=16, num_train_epochs=1, eval_strategy="epoch",
        report_to="none", save_strategy="no",
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config), args=arguments, train_dataset=Sentences(24), eval_dataset=Sentences(40),
        data_collator=collate, compute_metrics=accuracy,
    )
    trainer.train()
