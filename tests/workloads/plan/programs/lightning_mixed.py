"""Lightning: 16-mixed precision with validation and clipping of gradients."""

import pytorch_lightning as lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(
            nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Dropout(0.1), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
        )

    def training_step(self, batch, index):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.network(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        images, labels = batch
        self.log("accuracy", (self.network(images).argmax(-1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


data = TensorDataset(torch.randn(256, 1, 28, 28), torch.randint(0, 10, (256,)))
trainer = lightning.Trainer(
    accelerator="gpu", devices=1, max_epochs=2, precision="16-mixed", gradient_clip_val=1.0, logger=False, enable_checkpointing=False,
)
trainer.fit(Classifier(), DataLoader(data, batch_size=64, shuffle=True), DataLoader(data, batch_size=128))
