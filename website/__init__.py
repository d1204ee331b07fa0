"""How the pages are made: a folder for each feature, with its code, style and script.

Sphinx loads this package as one extension; `_config.yml` lists the style sheets and the
scripts.
"""

# In the order in which they see a page.
FEATURES = (
    "links.notebook_links",
    "offline.offline",
    "edition.write",
    "controls.pack_translator",
    "figures.figures",
    "controls.controls",
    "api.api",
    "links.code_links",
    "page.facts",
    "folds.folds",
    "folds.predictions",
    "front.front",
    "front.sharing",
    "controls.panels",
    "listings.mentions",
    "listings.listings",
    "terms.terms",
    "search.search_index",
)


def setup(app):
    for feature in FEATURES:
        app.setup_extension(f"{__name__}.{feature}")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
