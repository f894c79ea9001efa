"""How Sphinx makes the site of the pages that build.py lays out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from finish import finished

project = "tpu.fleet"
copyright = "the tpu.fleet authors"
extensions = [
    *("myst_parser", "sphinx.ext.intersphinx", "sphinx_antsibull_ext", "sphinx_copybutton"),
]
root_doc = "index"
# As GitHub shows them: headings of all levels have anchors, and -- stays as it is.
myst_heading_anchors = 6
smartquotes = False

# Where the reference leads into Ansible's documentation: build.py writes the few entries, so that
# nothing is fetched.
intersphinx_mapping = {
    "ansible": (
        "https://docs.ansible.com/projects/ansible/latest/",
        str(Path(__file__).resolve().parents[2] / ".work/site-source/ansible.inv"),
    )
}
antsibull_ext_color_scheme = "default"

html_theme = "pydata_sphinx_theme"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["extra"]
html_search_scorer = str(Path(__file__).parent / "scorer.js")
# What is typed, without the prompt and without what is printed.
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
html_title = "tpu.fleet"
html_copy_source = False
html_show_sourcelink = False
# There is nothing below it to navigate to, and its pictures are wide.
html_sidebars: dict[str, list[str]] = {"docs/tutorial": []}
html_theme_options = {
    "github_url": "https://github.com/tpu-fleet/tpu.fleet",
    "header_links_before_dropdown": 4,
    "show_prev_next": False,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}


def setup(app: Any) -> None:
    """Finish each page."""

    def finish(_app: Any, _name: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
        if "body" in context:
            context["body"] = finished(context["body"])

    app.connect("html-page-context", finish)
