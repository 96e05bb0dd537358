"""`fastai.utils`."""
