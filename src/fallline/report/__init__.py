"""One page from any stored results: ``reading`` turns a file into a section, by the verb that wrote it, ``composing``
makes a page of sections, and ``server`` shows a page that follows its files."""
