"""Every module can be the first one that a process imports: nothing depends on the order."""

import subprocess
import sys
from pathlib import Path

import munkey

IMPORT_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [module for module in sys.modules if module.split(".")[0] == "munkey"]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except Exception as error:
        raise ImportError(f"{name} cannot be imported first") from error
"""


def test_each_module_imports_first():
    """In one fresh process, which forgets our modules each time: only the libraries stay loaded."""
    root = Path(munkey.__file__).parents[1]
    paths = [path.relative_to(root).with_suffix("") for path in root.glob("munkey/**/*.py")]
    names = sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)
    assert {"munkey", "munkey.models.families.munkey", "munkey.experiment.plan.plan"} <= set(names)
    done = subprocess.run([sys.executable, "-c", IMPORT_EACH, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
