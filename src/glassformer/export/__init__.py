"""Exports: models as other runtimes read them, each compared with the model it was made of, and archives of models."""
