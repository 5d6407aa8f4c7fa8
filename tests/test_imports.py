"""Every module can be the first one that a process imports: no circle depends on the order."""

import subprocess
import sys
from pathlib import Path

import munkey


def test_each_module_imports_first():
    root = Path(munkey.__file__).parent
    names = [".".join(p.relative_to(root).with_suffix("").parts) for p in root.rglob("*.py") if p.stem != "__init__"]
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    for loaded in [m for m in sys.modules if m.split('.')[0] == 'munkey']:\n"
        "        del sys.modules[loaded]\n"
        "    importlib.import_module('munkey.' + name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *sorted(names)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
