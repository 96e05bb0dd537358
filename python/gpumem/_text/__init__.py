"""Text that commands print and read: sizes, messages, progress, the objects of `--format json`.

The package has rooms, and a room uses only those before it: `_text`, `_machine`, `_reading`, `_inside`, `_launch`,
`_commands`, `_whatif`, `_plan`. tests/test_module_graph.py checks this. The public modules beside them use any room."""
