"""The backend of torch.distributed."""
