"""Results in other people's trackers: TensorBoard, trackio, Weights & Biases, MLflow.

:func:`~fallline.logs.sinks.log` is the one entry. A verb describes its results as
:class:`~fallline.logs.material.Material`; each tracker has a file that writes it, and is imported only when it is asked
for. A tracker goes where its own settings say: its server, its folder, or nowhere but this machine.
"""
