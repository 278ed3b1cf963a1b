"""A document as HTML: a page that stands in one file, or a fragment for a notebook.

:func:`~fallline.document.html.page.page` makes the page and :func:`~fallline.document.html.fragment.fragment` the
fragment. Everything that comes from data is escaped by :func:`~fallline.document.html.tags.text` or lies in a JSON
island, and the page's content security policy runs its own two scripts only, so that a name never becomes code.
"""
