"""The optimizer contract: what users of torch.optim may expect of every optimizer here."""
