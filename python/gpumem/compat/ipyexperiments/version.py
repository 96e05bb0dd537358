"""`ipyexperiments.version`: the release of ipyexperiments whose interface this package has."""

__all__ = ["__version__"]
__version__ = "0.1.29"
