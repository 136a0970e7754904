"""Trains and validates with Lightning, which starts its processes itself."""

import sys
from typing import Any

import lightning
import torch
from _client import BACKEND, FOLDER, network, record
from lightning.pytorch.strategies import DDPStrategy


class Regression(lightning.LightningModule):
    """Logs what Lightning reduces over ranks: means of floats and of whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()
        self.losses: list[float] = []

    def loss_of(self, batch: list[torch.Tensor]) -> torch.Tensor:
        (inputs,) = batch
        return torch.nn.functional.mse_loss(self.network(inputs), inputs.sum(1, keepdim=True))

    def training_step(self, batch: list[torch.Tensor], place: int) -> torch.Tensor:
        loss = self.loss_of(batch)
        self.losses.append(loss.item())
        self.log("train_loss", loss, sync_dist=True, on_epoch=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], place: int) -> None:
        self.log("validation_loss", self.loss_of(batch), sync_dist=True)
        self.log("place", place, sync_dist=True)
        self.log("rows", len(batch[0]), sync_dist=True, reduce_fx="sum")

    def on_validation_epoch_end(self) -> None:
        ranks = self.all_gather(torch.tensor([self.global_rank]))
        assert ranks.flatten().tolist() == list(range(self.trainer.world_size))

    def on_fit_end(self) -> None:
        found = self.network.state_dict() | dict(self.trainer.callback_metrics)
        record(self.global_rank, self.losses, found)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


def loader(num_rows: int, **options: Any) -> torch.utils.data.DataLoader:
    rows = torch.randn(num_rows, 20, generator=torch.Generator().manual_seed(1))
    dataset = torch.utils.data.TensorDataset(rows)
    return torch.utils.data.DataLoader(dataset, batch_size=16, **options)


if __name__ == "__main__":
    lightning.seed_everything(0)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(process_group_backend=BACKEND, start_method=sys.argv[1]),
        max_epochs=2,
        logger=False,
        enable_progress_bar=False,
        default_root_dir=FOLDER,
    )
    trainer.fit(Regression(), loader(96, shuffle=True), loader(40))
