"""Names of fastai 1.0."""

__version__ = "1.0.61"
