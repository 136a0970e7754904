"""How Sphinx builds the documentation as a site: ``make docs``."""

project = "MultiTree"
author = "MultiTree contributors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["conf.py"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = "MultiTree"
html_static_path = ["_static"]
html_css_files = ["dark.css"]
html_copy_source = False
html_show_sourcelink = False

# Headings of all levels are link targets, named as on GitHub: the pages are read there, too.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "dollarmath"]

# A name in backticks may be a member of several classes; it is then set as code, without a link.
suppress_warnings = ["ref.python"]

# Single backticks name things of the code.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_rtype = False
