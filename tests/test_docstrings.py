"""The examples in docstrings run as printed."""

import doctest
import importlib

import pytest

from tests.conftest import ROOT

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SOURCES = sorted((ROOT / "src/munkey").rglob("*.py"))
WITH_EXAMPLES = [path for path in SOURCES if "\n    >>> " in path.read_text()]
# What docs/extending.md hands to plug-ins, by module, and the sections that its docstring must have.
PUBLIC = {
    "munkey.audits.evidence": {"Predictions": ("Parameters",)},
    "munkey.audits.registry": {"audit": ("Parameters", "Returns", "Raises", "Examples")},
    "munkey.data.image_set": {"ImageSet": ("Parameters", "Raises", "Notes", "Examples")},
    "munkey.encoders.registry": {"encoder": ("Parameters", "Returns", "Raises", "Examples")},
    "munkey.models.family": {"Family": ("Parameters", "Raises", "Notes", "Examples")},
    "munkey.unlearn.contract": {
        "method": ("Parameters", "Returns", "Raises", "Examples"),
        "Request": ("Parameters", "Raises", "Examples"),
    },
}


def module_of(path):
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)


@pytest.mark.parametrize("name", [module_of(path) for path in WITH_EXAMPLES])
def test_the_examples_of_a_module_run_as_printed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize("module", PUBLIC)
def test_names_for_plug_ins_have_numpydoc_sections(module):
    for name, sections in PUBLIC[module].items():
        text = getattr(importlib.import_module(module), name).__doc__
        for section in sections:
            heading = f"    {section}\n    {'-' * len(section)}\n"
            assert heading in text, f"{module}.{name} lacks {section}"
