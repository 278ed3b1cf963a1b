"""Averages of the weights, as wrappers of any optimizer: train the raw weights, evaluate the average."""

from fallline.averaging.lawa import LawaEma, LawaQueue
from fallline.averaging.weight_ema import WeightEma

__all__ = ["LawaEma", "LawaQueue", "WeightEma"]
