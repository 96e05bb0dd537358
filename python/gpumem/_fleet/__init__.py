"""`gpumem fleet`: questions to the dataset of many captures (docs/dataset.md), by DuckDB here and by Spark elsewhere."""
