"""The output of a verb as data: tables, figures, verdicts and notes, with a renderer for each way of showing them.

A verb builds a :class:`~fallline.document.blocks.Document` from its results and does not depend on renderers; a
renderer (one file each: ``terminal``, ``markdown``, ``csv``, ``json``, ``picture``) does not depend on verbs. This
package imports nothing else of fallline, so that any module may use it.
"""
