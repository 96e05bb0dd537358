"""`gpumem fleet`: queries of the dataset of many captures (docs/dataset.md), with
DuckDB here and with Spark elsewhere."""
