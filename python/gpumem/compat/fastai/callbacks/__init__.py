"""`fastai.callbacks`."""
