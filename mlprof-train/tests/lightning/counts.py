"""Prints the number of calls of each Lightning action during a fit, as JSON.

The fit equals that of the test in this folder. After a sanity check of 2 batches, it has 2 epochs
of 7 batches, each with a validation of 4 batches. It uses one callback, and no logger, checkpoints
or progress bar.
"""

import collections
import json
import logging
import os
import warnings

# Set before the import of torch, which would otherwise print a warning about a missing GPU.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.filterwarnings("ignore")

try:
    import lightning.pytorch as lightning
    from lightning.pytorch.profilers import Profiler
except ImportError:
    import pytorch_lightning as lightning
    from pytorch_lightning.profilers import Profiler
import torch

for name in ("lightning.pytorch", "pytorch_lightning"):
    logging.getLogger(name).setLevel(logging.ERROR)


class Counts(Profiler):
    def __init__(self):
        super().__init__()
        self.calls = collections.Counter()

    def start(self, action_name):
        pass

    def stop(self, action_name):
        self.calls[action_name] += 1

    def teardown(self, stage):
        pass

    def describe(self):
        pass


class Toy(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch):
        return self.layer(batch).square().mean()

    def validation_step(self, batch):
        self.log("val_loss", self.layer(batch).square().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Witness(lightning.Callback):
    pass


def loader(batches):
    data = torch.arange(1.0, batches + 1).reshape(-1, 1)
    return torch.utils.data.DataLoader(data, batch_size=1)


profiler = Counts()
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=1,
    max_epochs=2,
    num_sanity_val_steps=2,
    profiler=profiler,
    callbacks=[Witness()],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Toy(), loader(7), loader(4))
print(json.dumps({"version": lightning.__version__, "calls": profiler.calls}, indent=1))
