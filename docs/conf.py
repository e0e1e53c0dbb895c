"""Sphinx configuration. `make docs` builds the site; a warning is an error, and nothing is fetched."""

from __future__ import annotations

import sys
from pathlib import Path

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
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "plain_docstrings",
    "theorems",
]
exclude_patterns = ["_static", "_site", "_build", "jupyter_execute", ".jupyter_cache"]
templates_path = ["_templates"]

# Markdown
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

# Notebooks run at every build, in a fresh kernel; an error stops the build.
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True

# The button at a block of code copies what one types: no prompt, and no output below a prompt.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# API reference
autosummary_generate = True
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"  # numpydoc shows the types that the docstrings name
numpydoc_show_class_members = False
default_role = "code"
add_module_names = False

# Pages
html_theme = "pydata_sphinx_theme"
html_title = "ndis"
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
    "header_links_before_dropdown": 6,
}
