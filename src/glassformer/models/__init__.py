"""One small file per architecture: a config, a weight table and an nn.Module."""
