"""Names of fastai 1.0."""
