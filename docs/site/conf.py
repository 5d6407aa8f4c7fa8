"""The documentation site, built by Sphinx: README.md is its first page, docs/ holds the others. `make site` builds it.

The pages are plain Markdown that a code host shows as well: what only the site needs is in this folder.
"""

import sys
import tomllib
from pathlib import Path

import fastapi  # noqa: F401  # early: autodoc changes annotations of pydantic's, after which this import fails

# the source folder, so that links between README.md and docs/ hold as they are
ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "src")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project, release = PROJECT["name"], PROJECT["version"]
author = "the munkey authors"
project_copyright = f"2026, {author}"
extensions = [
    "myst_parser",
    "sphinx.ext.apidoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "contents",
    "docstrings",
    "sphinx.ext.napoleon",  # after docstrings, whose text it reads
    "files",
    "formulas",
    "tables",
]
root_doc = "README"
include_patterns = [
    "*.md",
    "data/README.md",
    "docs/*.md",
    "docs/methods/*.md",
    "docs/reference/munkey*.rst",
]
exclude_patterns = [  # folders that are not even looked into
    *(
        ".*",
        "data/[!R]*",
        "docs/gallery",
        "docs/results",
        "docs/site",
        "src",
        "tests",
        "typings",
        "workflow",
    ),
    *(
        "benchmarks",
        "profiles",
        "results",
        "cache",
        "encoders",
        "logs",
        "ml*",
        "models",
        "pictures",
        "site",
    ),
]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4  # as code hosts name them
html_math_renderer = "mathml"

apidoc_modules = [
    {
        "path": "../../src/munkey",
        "destination": "docs/reference",
        "exclude_patterns": ["../../src/munkey/cli/__main__.py"],
        "module_first": True,
    }
]
autodoc_default_options = {"exclude-members": "model_config"}  # of pydantic
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
suppress_warnings = ["ref.python"]  # the short name of a class in a signature may stand for two

html_theme = "furo"
html_title = "munkey"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["first"]  # index.html, which opens the first page
html_copy_source = False
html_show_sphinx = False
