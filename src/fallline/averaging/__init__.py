"""Averages of the weights as wrappers of any optimizer: the raw weights are trained, and the average is evaluated."""

from fallline.averaging.lawa import LawaEma, LawaQueue
from fallline.averaging.weight_ema import WeightEma

__all__ = ["LawaEma", "LawaQueue", "WeightEma"]
