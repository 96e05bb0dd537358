"""`ipyexperiments.utils`."""
