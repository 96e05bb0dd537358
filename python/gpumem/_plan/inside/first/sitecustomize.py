"""Runs at the start of each Python below a plan, from the folder that the planner puts first on PYTHONPATH. It
hooks the import of PyTorch, removes its folder from `sys.path` and runs the sitecustomize that it hides."""

import sys


def _arm(folder):
    """Installs a hook that installs the plan's parts after torch is imported. Loads nothing before that."""
    import os

    if not os.environ.get("GPUMEM_PLAN_PARTS"):
        return
    inside = os.path.dirname(folder)

    class Armed:
        """A finder that finds torch with the other finders, and runs the parts after torch's module body."""

        def find_spec(self, name, path=None, target=None):
            if name != "torch" or self not in sys.meta_path:
                return None
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if finder is not self and find else None
                if spec is not None:
                    break
            else:
                return None
            loader = spec.loader
            if hasattr(loader, "exec_module"):
                execute = loader.exec_module

                def exec_module(module):
                    # The loader is restored before other code can see it.
                    del loader.exec_module
                    execute(module)
                    if self in sys.meta_path:
                        sys.meta_path.remove(self)
                        _install(inside, module)

                loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, Armed())


def _install(inside, torch):
    from importlib import util

    name = "_gpumem_plan"
    spec = util.spec_from_file_location(name, inside + "/__init__.py", submodule_search_locations=[inside])
    package = util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    package.install(torch)


def _step_aside(folder):
    """Imports the sitecustomize that this one hides. Without one, the import fails as it would have failed."""
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    sys.path_importer_cache.pop(folder, None)
    del sys.modules["sitecustomize"]
    import sitecustomize  # noqa: F401


def _begin():
    # The folder as written in PYTHONPATH.
    folder = __file__.rsplit("/", 1)[0]
    _arm(folder)
    _step_aside(folder)


_begin()
