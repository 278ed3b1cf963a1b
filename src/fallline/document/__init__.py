"""The output of a verb as data: tables, figures, verdicts and notes, with a renderer for each way to show them.

A verb builds a :class:`~fallline.document.blocks.Document` from its results and knows no renderer; a renderer (one file
each: ``terminal``, ``markdown``, ``csv``, ``json``, ``picture``) knows no verb. This package imports nothing else of
fallline, so that anything may use it.
"""
