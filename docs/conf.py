"""Sphinx configuration. `make docs` builds the site; a warning is an error, and nothing is fetched."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from numpydoc.xref import DEFAULT_LINKS

import ndis

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "ndis"
author = "the ndis developers"
copyright = "the ndis developers"  # Sphinx reads this name
version = release = ndis.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "names",
    "plain_docstrings",
    "theorems",
]
exclude_patterns = ["_static", "_site", "_build", "jupyter_execute", ".jupyter_cache"]
templates_path = ["_templates"]

# Markdown
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

# Notebooks run at every build, in a fresh kernel; an error stops the build.
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 3600  # of one cell; a busy machine is no error
nb_execution_show_tb = True
nb_merge_streams = True  # what a cell prints stands in one block

# The button at a block of code copies what one types: no prompt, and no output below a prompt.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# API reference
autosummary_generate = True
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"  # numpydoc shows the types that the docstrings name
numpydoc_show_class_members = False
numpydoc_xref_param_type = True  # a type in a docstring is a link, if it is one of ours
numpydoc_xref_ignore = "all"
REFERENCE = (Path(__file__).parent / "reference" / "index.md").read_text("utf-8")
NAMES = re.findall(r"^   ~?([\w.]*\b[A-Z]\w+)$", REFERENCE, re.MULTILINE)
# No other inventory is read, so the words of Python and NumPy are no links.
numpydoc_xref_aliases = {word: word for word in DEFAULT_LINKS} | {name.split(".")[-1]: f"ndis.{name}" for name in NAMES}
default_role = "code"
add_module_names = False
toc_object_entries_show_parents = "hide"  # the side column has room for "epsilon", not for "PrivacyProfile.epsilon"

# Pages
html_theme = "pydata_sphinx_theme"
html_sidebars = {page: [] for page in ("index", "install", "changes", "contributing")}  # no pages below these
html_title = f"ndis {version}"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["ndis.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "logo": {"text": f"ndis {version}"},
}
# Where the sources are hosted, if they are: links to the repository and to the source of each page.
if repository := os.environ.get("NDIS_REPOSITORY"):  # https://host/owner/name
    host, owner, name = repository.rsplit("/", 2)
    html_context = {"github_url": host, "github_user": owner, "github_repo": name}
    html_context |= {"github_version": "main", "doc_path": "docs"}
    html_theme_options |= {"use_edit_page_button": True, "github_url": repository}
