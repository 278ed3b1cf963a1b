"""A race at several rungs of one axis, such as the number of steps: does an advantage carry over to larger ones?"""
